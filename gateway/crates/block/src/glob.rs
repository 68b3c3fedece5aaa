//! Bucket name patterns, in one place for policies and permissions.

/// Whether `name` fits `pattern`, in which `*` stands for any run of characters and `?` for one.
#[must_use]
pub fn glob_matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut p, mut n) = (0, 0);
    // Where the last star was, and the name position up to which it has eaten.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(&c) if c == b'?' || c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match star {
                Some((at, eaten)) => {
                    star = Some((at, eaten + 1));
                    p = at + 1;
                    n = eaten + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&c| c == b'*')
}

#[cfg(test)]
mod tests {
    use super::glob_matches;

    #[test]
    fn patterns() {
        for (pattern, name, fits) in [
            ("*", "", true),
            ("*", "kv", true),
            ("kv-*", "kv-a", true),
            ("kv-*", "kv", false),
            ("k?", "kv", true),
            ("k?", "k", false),
            ("*-prod-*", "a-prod-prod-b", true),
            ("*ab", "aab", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyy", false),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(glob_matches(pattern, name), fits, "{pattern} {name}");
        }
    }
}
