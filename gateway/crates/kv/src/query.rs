//! Query parameters: those of the operation, and those of a presigned URL.

use crate::refusal::Refusal;

/// Reads the flag `name`, the only parameter that an operation may have; false where it is not there.
pub(crate) fn flag(query: Option<&str>, name: Option<&str>) -> Result<bool, Refusal> {
    let mut flag = None;
    for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        let (given, value) = pair.split_once('=').unwrap_or((pair, ""));
        // Read where the signature is verified.
        if given.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("x-amz-")) {
            continue;
        }
        if Some(given) != name {
            return Err(Refusal::argument(format!("the query parameter `{}` is not known", given.escape_default())));
        }
        let value = match value {
            "true" => true,
            "false" => false,
            _ => return Err(Refusal::argument(format!("the query parameter `{given}` must be true or false"))),
        };
        if flag.replace(value).is_some() {
            return Err(Refusal::argument(format!("the query parameter `{given}` is given twice")));
        }
    }
    Ok(flag.unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_known() {
        assert_eq!(flag(None, None), Ok(false));
        assert_eq!(flag(Some("group=true"), Some("group")), Ok(true));
        assert_eq!(flag(Some("X-Amz-Date=1&group=false"), Some("group")), Ok(false));
        for query in ["gruop=true", "group", "group=1", "group=true&group=true", "%67roup=true"] {
            assert!(flag(Some(query), Some("group")).is_err(), "{query}");
        }
        assert!(flag(Some("group=true"), None).is_err());
    }
}
