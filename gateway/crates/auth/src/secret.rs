//! A text that must not be seen.

use std::fmt;

/// A secret that no log line, debug output or error shows.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Hides `text`.
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// The text itself; for signing, and for showing it once to the person who owns it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::Secret;

    #[test]
    fn debug_output_hides_the_text() {
        let secret = Secret::new("hunter2".to_owned());
        assert!(!format!("{secret:?}").contains("hunter2"));
        assert!(!format!("{:#?}", Some(&secret)).contains("hunter2"));
        assert_eq!(secret.expose(), "hunter2");
    }
}
