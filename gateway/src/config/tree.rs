//! Settings as they were given: a tree of values, each with the place that it came from.
//!
//! The file is read first, then every `BLOCKGATE__SECTION__NAME` variable replaces the setting of that name.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// What the name of every variable begins with.
const VARIABLE_PREFIX: &str = "BLOCKGATE__";

/// Most elements of an array of tables (`[[access]]`, `[[bucket]]` …).
const ELEMENTS_MAX: usize = 10_000;

/// Where a setting was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Nowhere: it is the default.
    Default,
    /// In the file, on this line.
    File {
        /// The file as named on the command line.
        path: Arc<str>,
        /// Counted from 1.
        line: usize,
    },
    /// In this environment variable.
    Variable(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{path}:{line}"),
            Self::Variable(name) => f.write_str(name),
        }
    }
}

/// A value and where it was given.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) origin: Origin,
    pub(crate) value: Value,
}

/// A value, not yet understood.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// A string, or the text of a variable.
    Text(String),
    /// A number.
    Integer(i64),
    /// `true` or `false`.
    Boolean(bool),
    /// An array.
    List(Vec<Setting>),
    /// A section.
    Table(Table),
    /// Something that no setting takes: a float or a date.
    Other(&'static str),
}

/// Settings by name.
pub(crate) type Table = BTreeMap<String, Setting>;

/// Reads a file's text.
///
/// # Errors
/// What is wrong with its syntax, with the line.
pub(crate) fn from_file(path: &str, text: &str) -> Result<Table, String> {
    let path: Arc<str> = path.into();
    let file = File { path, text };
    match DeTable::parse(text) {
        Ok(table) => Ok(file.table(table.into_inner())),
        Err(error) => {
            let at = file.origin(error.span().map_or(0, |span| span.start));
            Err(format!("{at}: {}", error.message().trim().replace('\n', "; ")))
        }
    }
}

struct File<'t> {
    path: Arc<str>,
    text: &'t str,
}

impl File<'_> {
    fn origin(&self, offset: usize) -> Origin {
        let before = &self.text.as_bytes()[..offset.min(self.text.len())];
        Origin::File { path: self.path.clone(), line: before.iter().filter(|&&byte| byte == b'\n').count() + 1 }
    }

    fn table(&self, table: DeTable<'_>) -> Table {
        let entry = |(key, value): (Spanned<_>, _)| {
            // A setting is where its name is; the value's own place is that of a list's element.
            let origin = self.origin(key.span().start);
            let name: std::borrow::Cow<'_, str> = key.into_inner();
            (name.into_owned(), Setting { origin, ..self.setting(value) })
        };
        table.into_iter().map(entry).collect()
    }

    fn setting(&self, value: Spanned<DeValue<'_>>) -> Setting {
        let origin = self.origin(value.span().start);
        let value = match value.into_inner() {
            DeValue::String(text) => Value::Text(text.into_owned()),
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
                .map_or(Value::Other("an integer beyond 64 bits"), Value::Integer),
            DeValue::Boolean(value) => Value::Boolean(value),
            DeValue::Array(items) => Value::List(items.iter().map(|item| self.setting(item.clone())).collect()),
            DeValue::Table(table) => Value::Table(self.table(table)),
            DeValue::Float(_) => Value::Other("a fraction"),
            DeValue::Datetime(_) => Value::Other("a date"),
        };
        Setting { origin, value }
    }
}

/// Puts every `BLOCKGATE__…` variable where it belongs. `BLOCKGATE__BUCKET__0__NAME` is the first bucket's name.
///
/// # Errors
/// Names that can't be placed.
pub(crate) fn overlay(table: &mut Table, variables: &BTreeMap<String, String>) -> Result<(), String> {
    let mut settings: Vec<(Vec<String>, &String, &String)> = variables
        .iter()
        .filter_map(|(name, text)| Some((name.strip_prefix(VARIABLE_PREFIX)?, name, text)))
        .map(|(path, name, text)| (path.to_ascii_lowercase().split("__").map(str::to_owned).collect(), name, text))
        .collect();
    // Elements in the order of their numbers, so that 10 comes after 9.
    settings.sort_by_key(|(path, ..)| {
        path.iter().map(|part| (part.parse().unwrap_or(0), part.clone())).collect::<Vec<(usize, String)>>()
    });
    for (path, name, text) in settings {
        place(table, &path, name, text)?;
    }
    Ok(())
}

fn place(table: &mut Table, path: &[String], variable: &str, text: &str) -> Result<(), String> {
    let origin = Origin::Variable(variable.to_owned());
    match path {
        [] => Ok(()),
        [name] => {
            table.insert(name.clone(), Setting { origin, value: Value::Text(text.to_owned()) });
            Ok(())
        }
        [name, index, rest @ ..] if index.parse::<usize>().is_ok() && !rest.is_empty() => {
            let list = table
                .entry(name.clone())
                .or_insert_with(|| Setting { origin: origin.clone(), value: Value::List(Vec::new()) });
            let (Value::List(items), Ok(index)) = (&mut list.value, index.parse::<usize>()) else {
                return Err(format!("{variable}: {name} is not a list of sections"));
            };
            if index > items.len() || index >= ELEMENTS_MAX {
                return Err(format!("{variable}: element {index} without element {}", items.len()));
            }
            if index == items.len() {
                items.push(Setting { origin, value: Value::Table(Table::new()) });
            }
            place_in(&mut items[index], rest, variable, text)
        }
        [name, rest @ ..] => {
            let section =
                table.entry(name.clone()).or_insert_with(|| Setting { origin, value: Value::Table(Table::new()) });
            place_in(section, rest, variable, text)
        }
    }
}

fn place_in(section: &mut Setting, path: &[String], variable: &str, text: &str) -> Result<(), String> {
    match &mut section.value {
        Value::Table(table) => place(table, path, variable, text),
        _ => Err(format!("{variable}: {} is not in a section", path.join("."))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|&(name, text)| (name.to_owned(), text.to_owned())).collect()
    }

    fn text_at<'t>(table: &'t Table, path: &[&str]) -> Option<(&'t str, String)> {
        let setting = table.get(path[0])?;
        match (&setting.value, &path[1..]) {
            (Value::Text(text), []) => Some((text, setting.origin.to_string())),
            (Value::Table(inner), rest) => text_at(inner, rest),
            (Value::List(items), [index, rest @ ..]) => match &items.get(index.parse::<usize>().ok()?)?.value {
                Value::Table(inner) => text_at(inner, rest),
                _ => None,
            },
            _ => None,
        }
    }

    #[test]
    fn settings_know_their_lines() {
        let table = from_file("b.toml", "[log]\n\n  level = \"info\"\n[[bucket]]\nname = \"kv\"\n").unwrap();
        assert_eq!(text_at(&table, &["log", "level"]), Some(("info", "b.toml:3".into())));
        assert_eq!(text_at(&table, &["bucket", "0", "name"]), Some(("kv", "b.toml:5".into())));
    }

    #[test]
    fn bad_syntax_is_reported_with_its_line() {
        let error = from_file("b.toml", "[memory]\ncapacity = \n").unwrap_err();
        assert!(error.starts_with("b.toml:2: "), "{error}");
        let error = from_file("b.toml", "[memory]\na = 1\na = 2\n").unwrap_err();
        assert!(error.starts_with("b.toml:3: "), "{error}");
    }

    #[test]
    fn variables_replace_what_the_file_says() {
        let mut table = from_file("b.toml", "[a]\nx = \"file\"\ny = \"file\"\n").unwrap();
        overlay(&mut table, &variables(&[("BLOCKGATE__A__X", "env"), ("OTHER__A__Y", "no")])).unwrap();
        assert_eq!(text_at(&table, &["a", "x"]), Some(("env", "BLOCKGATE__A__X".into())));
        assert_eq!(text_at(&table, &["a", "y"]), Some(("file", "b.toml:3".into())));
    }

    #[test]
    fn variables_reach_into_lists_of_sections() {
        let mut table = from_file("b.toml", "[[bucket]]\nname = \"a\"\n").unwrap();
        let names: Vec<String> = (0..12).map(|n| format!("BLOCKGATE__BUCKET__{n}__NAME")).collect();
        let pairs: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "b")).collect();
        overlay(&mut table, &variables(&pairs)).unwrap();
        assert_eq!(text_at(&table, &["bucket", "0", "name"]), Some(("b", "BLOCKGATE__BUCKET__0__NAME".into())));
        assert_eq!(text_at(&table, &["bucket", "11", "name"]), Some(("b", "BLOCKGATE__BUCKET__11__NAME".into())));
    }

    #[test]
    fn variables_that_fit_nowhere_are_refused() {
        let mut table = from_file("b.toml", "a = 1\n[[bucket]]\nname = \"a\"\n").unwrap();
        for (name, expected) in [
            ("BLOCKGATE__A__X", "BLOCKGATE__A__X: x is not in a section"),
            ("BLOCKGATE__A__0__X", "BLOCKGATE__A__0__X: a is not a list of sections"),
            ("BLOCKGATE__BUCKET__2__NAME", "BLOCKGATE__BUCKET__2__NAME: element 2 without element 1"),
        ] {
            assert_eq!(overlay(&mut table, &variables(&[(name, "v")])), Err(expected.to_owned()));
        }
    }
}
