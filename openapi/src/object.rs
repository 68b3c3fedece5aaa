//! Values that are written as JSON objects.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

/// A value that is written as an object: serde would take an array of its fields' values, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Read<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }
        deserializer.deserialize_map(Read(PhantomData))
    }
}

/// A list of objects, or null.
pub(crate) fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Vec<T>>, D::Error> {
    let list: Option<Vec<Object<T>>> = Option::deserialize(deserializer)?;
    Ok(list.map(|list| list.into_iter().map(|Object(value)| value).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{ByteRange, GetRequest, PutHeader};

    #[test]
    fn arrays_of_values_are_no_objects() {
        assert!(serde_json::from_str::<Object<PutHeader>>(r#"{"key":"k"}"#).is_ok());
        assert!(serde_json::from_str::<Object<PutHeader>>(r#"["k",null,null]"#).is_err());
        let ranges =
            |text: &str| serde_json::from_str::<GetRequest>(&format!("{{\"ranges\":{text}}}")).map(|r| r.ranges);
        assert_eq!(ranges(r#"[{"offset":0,"length":1}]"#).unwrap(), Some(vec![ByteRange { offset: 0, length: 1 }]));
        assert_eq!(ranges("null").unwrap(), None);
        assert!(ranges("[[0,1]]").is_err());
    }
}
