//! What tells gateways apart.

use std::fmt;
use std::str::FromStr;

/// A gateway, from its start to its end: random, 16 hexadecimal digits where it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GatewayId(pub u64);

impl fmt::Display for GatewayId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for GatewayId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let is_canonical = text.len() == 16 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        u64::from_str_radix(text, 16).ok().filter(|_| is_canonical).map(Self).ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_written_in_one_way() {
        assert_eq!(GatewayId(10).to_string().parse(), Ok(GatewayId(10)));
        for text in ["", "a", "000000000000000A", "+00000000000000a", "00000000000000000"] {
            assert_eq!(text.parse::<GatewayId>(), Err(()), "{text}");
        }
    }
}
