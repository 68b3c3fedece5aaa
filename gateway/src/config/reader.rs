//! Reads settings out of a [tree](super::tree), gathers every mistake, and notes what is in force.

use std::cell::{Cell, RefCell};
use std::ops::RangeInclusive;

use super::kinds::Kind;
use super::tree::{Origin, Setting, Table, Value};

/// How much of a refused text a message shows, in characters.
const TEXT_SHOWN_MAX: usize = 60;

/// What reading has found so far.
#[derive(Debug, Default)]
pub(crate) struct Report {
    mistakes: RefCell<Vec<String>>,
    in_force: RefCell<Vec<InForce>>,
}

/// A setting in force, or the head of a section.
#[derive(Clone, Debug)]
pub(crate) enum InForce {
    /// `[server]`, `[[bucket]]`.
    Section(String),
    /// A setting.
    Setting {
        /// Its name within the section.
        name: &'static str,
        /// Its value as the file would hold it; secrets hidden.
        value: String,
        /// Where it was given.
        origin: Origin,
    },
}

impl Report {
    /// The mistakes, in the order found, or what is in force.
    pub(crate) fn into_result(self) -> Result<Vec<InForce>, Vec<String>> {
        let mistakes = self.mistakes.into_inner();
        if mistakes.is_empty() { Ok(self.in_force.into_inner()) } else { Err(mistakes) }
    }

    fn mistake(&self, text: String) {
        self.mistakes.borrow_mut().push(text);
    }
}

/// A section being read. Every setting that it may hold must be asked for; [`Section::end`] refuses the others.
pub(crate) struct Section<'r> {
    report: &'r Report,
    /// As messages name it: `[server]`, `[[bucket]]`.
    label: String,
    origin: Origin,
    settings: Table,
    known: Vec<&'static str>,
    /// Whether its head stands among what is in force: it comes with the first setting.
    is_headed: Cell<bool>,
}

impl<'r> Section<'r> {
    /// The whole tree, whose settings are the sections.
    pub(crate) fn root(report: &'r Report, settings: Table) -> Self {
        Self {
            report,
            label: String::new(),
            origin: Origin::Default,
            settings,
            known: Vec::new(),
            is_headed: Cell::new(true),
        }
    }

    fn new(report: &'r Report, label: String, setting: Option<Setting>) -> Self {
        let mut section = Self {
            report,
            label,
            origin: Origin::Default,
            settings: Table::new(),
            known: Vec::new(),
            is_headed: Cell::new(false),
        };
        if let Some(setting) = setting {
            section.origin = setting.origin;
            match setting.value {
                Value::Table(settings) => section.settings = settings,
                _ => report.mistake(format!("{}: {} is a section, not a value", section.origin, section.label)),
            }
        }
        section
    }

    /// A section within this one; empty where it is not given.
    pub(crate) fn section(&mut self, name: &'static str) -> Section<'r> {
        let setting = self.take(name);
        let label = self.inner_label(name);
        Section::new(self.report, format!("[{label}]"), setting)
    }

    /// A section within this one, where it is given.
    pub(crate) fn section_if_given(&mut self, name: &'static str) -> Option<Section<'r>> {
        self.has(name).then(|| self.section(name))
    }

    /// The elements of an array of tables.
    pub(crate) fn sections(&mut self, name: &'static str) -> Vec<Section<'r>> {
        let label = format!("[[{}]]", self.inner_label(name));
        match self.take(name) {
            None => Vec::new(),
            Some(Setting { value: Value::List(items), .. }) => {
                items.into_iter().map(|item| Section::new(self.report, label.clone(), Some(item))).collect()
            }
            Some(Setting { origin, .. }) => {
                self.report.mistake(format!("{origin}: {label} is a list of sections"));
                Vec::new()
            }
        }
    }

    fn inner_label(&self, name: &str) -> String {
        match self.label.trim_matches(['[', ']']) {
            "" => name.to_owned(),
            outer => format!("{outer}.{name}"),
        }
    }

    fn take(&mut self, name: &'static str) -> Option<Setting> {
        self.has(name);
        self.settings.remove(name)
    }

    /// Whether the setting was given and not yet read. From now on it is one that the section may hold.
    pub(crate) fn has(&mut self, name: &'static str) -> bool {
        if !self.known.contains(&name) {
            self.known.push(name);
        }
        self.settings.contains_key(name)
    }

    /// A setting, or nothing where it is not given or wrong.
    pub(crate) fn optional<K: Kind>(&mut self, name: &'static str) -> Option<K> {
        let setting = self.take(name)?;
        let value = K::read(&setting.value);
        match &value {
            Some(value) => self.in_force(name, value.show(), setting.origin),
            None => {
                self.refuse(name, &setting.origin, &format!("{}; accepted: {}", describe(&setting.value), K::ACCEPTED));
            }
        }
        value
    }

    /// A setting or its default.
    pub(crate) fn get<K: Kind>(&mut self, name: &'static str, default: K) -> K {
        if self.has(name) {
            self.optional(name).unwrap_or(default)
        } else {
            self.in_force(name, default.show(), Origin::Default);
            default
        }
    }

    /// A setting within limits, or its default.
    pub(crate) fn within<K: Kind + PartialOrd>(
        &mut self,
        name: &'static str,
        default: K,
        limits: RangeInclusive<K>,
    ) -> K {
        let origin = self.origin_of(name);
        let value = self.get(name, default);
        self.check_limits(name, &origin, &value, &limits);
        value
    }

    /// A setting within limits, where it is given.
    pub(crate) fn optional_within<K: Kind + PartialOrd>(
        &mut self,
        name: &'static str,
        limits: RangeInclusive<K>,
    ) -> Option<K> {
        let origin = self.origin_of(name);
        let value = self.optional(name)?;
        self.check_limits(name, &origin, &value, &limits);
        Some(value)
    }

    fn check_limits<K: Kind + PartialOrd>(&self, name: &str, origin: &Origin, value: &K, limits: &RangeInclusive<K>) {
        if !limits.contains(value) {
            let (low, high) = (limits.start().show(), limits.end().show());
            self.refuse(name, origin, &format!("{} is out of range; accepted: {low} to {high}", value.show()));
        }
    }

    /// A list; a single value stands for a list of one, a variable holds it with commas between.
    pub(crate) fn list<K: Kind>(&mut self, name: &'static str, default: Vec<K>) -> Vec<K> {
        let Some(Setting { origin, value }) = self.take(name) else {
            self.in_force(name, show_list(&default), Origin::Default);
            return default;
        };
        let items: Vec<(Origin, Value)> = match (value, &origin) {
            (Value::List(items), _) => items.into_iter().map(|item| (item.origin, item.value)).collect(),
            (Value::Text(text), Origin::Variable(_)) => {
                text.split(',').map(|item| (origin.clone(), Value::Text(item.trim().to_owned()))).collect()
            }
            (value, _) => vec![(origin.clone(), value)],
        };
        if items.is_empty() {
            self.refuse(name, &origin, &format!("an empty list is not accepted; accepted: {}", K::ACCEPTED));
        }
        let mut list = Vec::with_capacity(items.len());
        for (at, item) in items {
            match K::read(&item) {
                Some(value) => list.push(value),
                None => self.refuse(name, &at, &format!("{}; accepted: a list, each {}", describe(&item), K::ACCEPTED)),
            }
        }
        self.in_force(name, show_list(&list), origin);
        list
    }

    /// A setting that must be given; `why` completes the message. Where it is not, `placeholder` lets reading go on.
    pub(crate) fn required<K: Kind>(&mut self, name: &'static str, why: &str, placeholder: K) -> K {
        if self.has(name) {
            return self.optional(name).unwrap_or(placeholder);
        }
        // A variable that gave another setting of the section is not to blame.
        let origin = match &self.origin {
            Origin::Variable(_) => Origin::Default,
            origin => origin.clone(),
        };
        self.refuse(name, &origin, &format!("missing; {why}"));
        placeholder
    }

    /// Refuses settings that contradict another one; `why` completes the message.
    pub(crate) fn forbid(&mut self, names: &[&'static str], why: &str) {
        for &name in names {
            if let Some(setting) = self.take(name) {
                self.refuse(name, &setting.origin, why);
            }
        }
    }

    /// Where a setting not yet read was given.
    pub(crate) fn origin_of(&self, name: &str) -> Origin {
        self.settings.get(name).map_or(Origin::Default, |setting| setting.origin.clone())
    }

    /// Gives a setting from elsewhere (a standard variable, say), unless it was given.
    pub(crate) fn supply(&mut self, name: &'static str, variable: &str, text: &str) {
        let origin = Origin::Variable(variable.to_owned());
        self.settings.entry(name.to_owned()).or_insert(Setting { origin, value: Value::Text(text.to_owned()) });
    }

    /// Adds a mistake that no single setting has.
    pub(crate) fn mistake(&self, text: &str) {
        self.report.mistake(text.to_owned());
    }

    /// Adds a mistake in the setting `name`.
    pub(crate) fn refuse(&self, name: &str, origin: &Origin, what: &str) {
        let label = &self.label;
        self.report.mistake(match origin {
            // The variable's name holds the section's and the setting's.
            Origin::Variable(variable) => format!("{variable}: {what}"),
            Origin::File { .. } if label.is_empty() => format!("{origin}: {name}: {what}"),
            Origin::File { .. } => format!("{origin}: {label} {name}: {what}"),
            Origin::Default => format!("{label} {name}: {what}"),
        });
    }

    fn in_force(&self, name: &'static str, value: String, origin: Origin) {
        let mut in_force = self.report.in_force.borrow_mut();
        if !self.is_headed.replace(true) {
            in_force.push(InForce::Section(self.label.clone()));
        }
        in_force.push(InForce::Setting { name, value, origin });
    }

    /// Refuses every setting that was not asked for.
    pub(crate) fn end(self) {
        let kind = if self.label.is_empty() { "section" } else { "setting" };
        let mut accepted = self.known.clone();
        accepted.sort_unstable();
        for (name, setting) in &self.settings {
            self.refuse(name, &setting.origin, &format!("unknown {kind}; accepted: {}", accepted.join(", ")));
        }
    }
}

fn show_list<K: Kind>(list: &[K]) -> String {
    format!("[{}]", list.iter().map(Kind::show).collect::<Vec<_>>().join(", "))
}

/// Names a value that is refused.
fn describe(value: &Value) -> String {
    match value {
        Value::Text(text) => format!("{:?} is not accepted", text.chars().take(TEXT_SHOWN_MAX).collect::<String>()),
        Value::Integer(number) => format!("{number} is not accepted"),
        Value::Boolean(value) => format!("{value} is not accepted"),
        Value::List(_) => "a list is not accepted".to_owned(),
        Value::Table(_) => "a section is not accepted".to_owned(),
        Value::Other(what) => format!("{what} is not accepted"),
    }
}
