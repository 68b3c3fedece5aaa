//! The kinds of values that settings have, and how each is written.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use blockgate_auth::Secret;

use super::tree::Value;

/// A kind of value.
pub(crate) trait Kind: Sized {
    /// What is accepted, for messages.
    const ACCEPTED: &'static str;

    /// The value, or nothing where it is not of this kind.
    fn read(value: &Value) -> Option<Self>;

    /// The value as the file would hold it.
    fn show(&self) -> String;
}

impl Kind for String {
    const ACCEPTED: &'static str = "a text that is not empty";

    fn read(value: &Value) -> Option<Self> {
        match value {
            Value::Text(text) if !text.trim().is_empty() => Some(text.clone()),
            _ => None,
        }
    }

    fn show(&self) -> String {
        format!("{self:?}")
    }
}

impl Kind for PathBuf {
    const ACCEPTED: &'static str = "a path";

    fn read(value: &Value) -> Option<Self> {
        String::read(value).map(Self::from)
    }

    fn show(&self) -> String {
        format!("{self:?}")
    }
}

impl Kind for Secret {
    const ACCEPTED: &'static str = "a text that is not empty";

    fn read(value: &Value) -> Option<Self> {
        String::read(value).map(Self::new)
    }

    fn show(&self) -> String {
        "(hidden)".to_owned()
    }
}

impl Kind for bool {
    const ACCEPTED: &'static str = "true or false";

    fn read(value: &Value) -> Option<Self> {
        match value {
            Value::Boolean(value) => Some(*value),
            Value::Text(text) => text.trim().parse().ok(),
            _ => None,
        }
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl Kind for u64 {
    const ACCEPTED: &'static str = "a whole number";

    fn read(value: &Value) -> Option<Self> {
        match value {
            Value::Integer(number) => (*number).try_into().ok(),
            Value::Text(text) => text.trim().parse().ok(),
            _ => None,
        }
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

/// Smaller numbers are read as large ones that fit.
macro_rules! numbers {
    ($($type:ty),+) => {$(
        impl Kind for $type {
            const ACCEPTED: &'static str = u64::ACCEPTED;

            fn read(value: &Value) -> Option<Self> {
                u64::read(value)?.try_into().ok()
            }

            fn show(&self) -> String {
                self.to_string()
            }
        }
    )+};
}

numbers!(u32, usize);

/// A number of bytes: `65536`, `"64KiB"`, `"4GiB"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Size(pub(crate) u64);

/// Largest unit first, for [`Size::show`].
const SIZE_UNITS: [(&str, u64); 5] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

impl Kind for Size {
    const ACCEPTED: &'static str = "a number of bytes, or a text such as \"256KiB\", \"64MiB\" or \"4GiB\"";

    fn read(value: &Value) -> Option<Self> {
        match value {
            Value::Text(text) => with_unit(text, &SIZE_UNITS).or_else(|| u64::read(value)).map(Self),
            _ => u64::read(value).map(Self),
        }
    }

    fn show(&self) -> String {
        match SIZE_UNITS.iter().find(|(_, bytes)| self.0 >= *bytes && self.0.is_multiple_of(*bytes)) {
            Some((_, 1)) | None => self.0.to_string(),
            Some((unit, bytes)) => format!("\"{}{unit}\"", self.0 / bytes),
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.show().trim_matches('"'))
    }
}

/// Largest unit first; milliseconds.
const DURATION_UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("ms", 1), ("s", 1_000)];

impl Kind for Duration {
    const ACCEPTED: &'static str = "a text such as \"500ms\", \"30s\", \"10m\", \"12h\" or \"7d\"";

    fn read(value: &Value) -> Option<Self> {
        match value {
            Value::Text(text) => with_unit(text, &DURATION_UNITS).map(Self::from_millis),
            _ => None,
        }
    }

    fn show(&self) -> String {
        let ms = self.as_millis();
        let fitting = ["d", "h", "m", "s"].into_iter().find_map(|unit| {
            let (_, unit_ms) = DURATION_UNITS.into_iter().find(|(name, _)| *name == unit)?;
            (ms > 0 && ms.is_multiple_of(u128::from(unit_ms)))
                .then(|| format!("\"{}{unit}\"", ms / u128::from(unit_ms)))
        });
        fitting.unwrap_or_else(|| if ms == 0 { "\"0s\"".to_owned() } else { format!("\"{ms}ms\"") })
    }
}

fn with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit.trim())?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

/// `host:port`; the host may be a name or an address, the port 0 for any free one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostPort(pub(crate) String);

impl Kind for HostPort {
    const ACCEPTED: &'static str = "\"host:port\", such as \"0.0.0.0:9800\" or \"[::1]:9800\"";

    fn read(value: &Value) -> Option<Self> {
        let text = String::read(value)?;
        let (host, port) = text.rsplit_once(':')?;
        let bare_v6 = host.contains(':') && !(host.starts_with('[') && host.ends_with(']'));
        let sound = !host.is_empty() && !bare_v6 && !host.contains(char::is_whitespace) && port.parse::<u16>().is_ok();
        sound.then_some(Self(text))
    }

    fn show(&self) -> String {
        self.0.show()
    }
}

/// An enum whose values are written as fixed words.
macro_rules! words {
    ($type:ty, $accepted:literal, $($word:literal => $value:expr),+ $(,)?) => {
        impl $crate::config::kinds::Kind for $type {
            const ACCEPTED: &'static str = $accepted;

            fn read(value: &$crate::config::tree::Value) -> Option<Self> {
                match value {
                    $crate::config::tree::Value::Text(text) => match text.as_str() {
                        $($word => Some($value),)+
                        _ => None,
                    },
                    _ => None,
                }
            }

            fn show(&self) -> String {
                let words = [$(($word, $value)),+];
                words.iter().find(|(_, value)| value == self).map_or_else(String::new, |(word, _)| format!("{word:?}"))
            }
        }
    };
}
pub(crate) use words;

#[cfg(test)]
mod tests {
    use super::*;

    fn text<K: Kind>(text: &str) -> Option<K> {
        K::read(&Value::Text(text.to_owned()))
    }

    #[test]
    fn sizes() {
        for (written, bytes) in [("0", 0), ("7", 7), ("64KiB", 65_536), ("4 GiB", 4 << 30), ("3MiB", 3 << 20)] {
            assert_eq!(text(written), Some(Size(bytes)), "{written}");
        }
        for refused in ["", "KiB", "4GB", "-1", "4gib", "1.5GiB", "99999999999TiB", "4GiB x"] {
            assert_eq!(text::<Size>(refused), None, "{refused}");
        }
        assert_eq!(Size::read(&Value::Integer(65_536)), Some(Size(65_536)));
        assert_eq!(Size::read(&Value::Integer(-1)), None);
        for (bytes, shown) in [(0, "0"), (1000, "1000"), (1 << 30, "\"1GiB\""), (1536, "1536"), (3 << 20, "\"3MiB\"")] {
            assert_eq!(Size(bytes).show(), shown);
        }
    }

    #[test]
    fn durations() {
        for (written, ms) in
            [("500ms", 500), ("30s", 30_000), ("10m", 600_000), ("12h", 43_200_000), ("7d", 604_800_000)]
        {
            let duration: Duration = text(written).unwrap();
            assert_eq!(duration, Duration::from_millis(ms));
            assert_eq!(duration.show(), format!("{written:?}"));
        }
        assert_eq!(text::<Duration>("0s").unwrap().show(), "\"0s\"");
        assert_eq!(Duration::from_millis(1_500).show(), "\"1500ms\"");
        for refused in ["", "30", "s", "-1s", "1.5s", "1w", "1d2h"] {
            assert_eq!(text::<Duration>(refused), None, "{refused}");
        }
        assert_eq!(Duration::read(&Value::Integer(30)), None, "a bare number has no unit");
    }

    #[test]
    fn addresses() {
        for sound in ["127.0.0.1:9800", "[::1]:0", "localhost:65535", "gateway.example:80"] {
            assert_eq!(text(sound), Some(HostPort(sound.to_owned())));
        }
        for refused in ["", "9800", ":9800", "host", "host:", "host:65536", "::1:80", "a b:80"] {
            assert_eq!(text::<HostPort>(refused), None, "{refused}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        assert_eq!(Secret::new("s3cret".into()).show(), "(hidden)");
    }
}
