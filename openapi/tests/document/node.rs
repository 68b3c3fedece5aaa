//! A JSON value whose maps keep their order, written as YAML.

use std::fmt::Write as _;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Number;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

/// `map! { "key" => value }`
macro_rules! map {
    ($($key:expr => $value:expr),* $(,)?) => {
        $crate::node::Node::Map(vec![$((String::from($key), $crate::node::Node::from($value))),*])
    };
}
pub(crate) use map;

impl Node {
    /// A value as serde writes it.
    pub(crate) fn of(value: &impl serde::Serialize) -> Self {
        serde_json::from_str(&serde_json::to_string(value).unwrap()).unwrap()
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        let Self::Map(entries) = self else { return None };
        entries.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// The same map with more entries.
    pub(crate) fn with(mut self, more: Self) -> Self {
        if let (Self::Map(entries), Self::Map(more)) = (&mut self, more) {
            entries.extend(more);
        }
        self
    }

    pub(crate) fn to_yaml(&self) -> String {
        let mut text = String::new();
        self.write(&mut text, 0);
        text
    }

    /// As a block, each line indented by `indent`.
    fn write(&self, text: &mut String, indent: usize) {
        match self {
            Self::Map(entries) => {
                for (key, value) in entries {
                    let _ = write!(text, "{:indent$}{}:", "", scalar(key));
                    value.write_after(text, indent + 2);
                }
            }
            Self::List(items) => {
                for item in items {
                    let mut block = String::new();
                    item.write(&mut block, indent + 2);
                    // The first line's indentation is where the dash stands.
                    let _ = writeln!(text, "{:indent$}- {}", "", block.trim());
                }
            }
            scalar => {
                let _ = writeln!(text, "{:indent$}{}", "", scalar.inline());
            }
        }
    }

    /// What follows a key: in the same line where it is short.
    fn write_after(&self, text: &mut String, indent: usize) {
        match self {
            Self::Map(entries) if !entries.is_empty() => {
                text.push('\n');
                self.write(text, indent);
            }
            Self::List(items) if items.iter().any(|item| matches!(item, Self::Map(_) | Self::List(_))) => {
                text.push('\n');
                self.write(text, indent);
            }
            short => {
                let _ = writeln!(text, " {}", short.inline());
            }
        }
    }

    fn inline(&self) -> String {
        match self {
            Self::Null => "null".to_owned(),
            Self::Bool(value) => value.to_string(),
            Self::Number(value) => value.to_string(),
            Self::Text(value) => scalar(value),
            Self::List(items) => format!("[{}]", items.iter().map(Self::inline).collect::<Vec<_>>().join(", ")),
            Self::Map(_) => "{}".to_owned(),
        }
    }
}

/// A string: bare where nothing in it means anything to YAML, else quoted as in JSON.
fn scalar(text: &str) -> String {
    let bare = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '/')
        && !text.ends_with(' ')
        && text.chars().all(|each| each.is_ascii_alphanumeric() || " /_-.;+()".contains(each) || each == '\'')
        && !["true", "false", "null", "yes", "no", "on", "off", "y", "n"].contains(&text.to_lowercase().as_str());
    if bare { text.to_owned() } else { serde_json::to_string(text).unwrap() }
}

macro_rules! from {
    ($($type:ty => $make:expr),* $(,)?) => {
        $(impl From<$type> for Node { fn from(value: $type) -> Self { $make(value) } })*
    };
}
from! {
    bool => Node::Bool,
    u64 => |value: u64| Node::Number(value.into()),
    i32 => |value: i32| Node::Number(value.into()),
    &str => |value: &str| Node::Text(value.to_owned()),
    String => Node::Text,
    Vec<Node> => Node::List,
    Vec<&str> => |value: Vec<&str>| Node::List(value.into_iter().map(Node::from).collect()),
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Build)
    }
}

struct Build;

impl<'de> Visitor<'de> for Build {
    type Value = Node;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Bool(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Node, E> {
        Number::from_f64(value).map(Node::Number).ok_or_else(|| E::custom("not finite"))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(Node::Map(map))
    }
}
