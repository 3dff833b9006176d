//! Turns the text of a setting into its type, and collects what cannot be read.

use super::duration::{DURATION_FORMS, parse_duration};
use super::known;
use super::layers::{Given, Layered};
use super::origin::Origin;
use super::problem::Problem;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Reads settings one by one. A value that cannot be read becomes a problem and its default takes
/// its place, so that the rest can still be examined.
pub(super) struct Reading {
    layered: Layered,
    pub(super) problems: Vec<Problem>,
}

impl Reading {
    pub(super) fn new(layered: Layered, problems: Vec<Problem>) -> Self {
        Self { layered, problems }
    }

    pub(super) fn origin(&self, name: &'static str) -> Origin {
        self.layered
            .get(name)
            .map_or(Origin::Default, |given| given.origin.clone())
    }

    /// The names somebody gave a value that could not be read.
    pub(super) fn unreadable(&self) -> Vec<&'static str> {
        let bad = |problem: &Problem| match problem {
            Problem::BadValue { name, .. } => Some(*name),
            _ => None,
        };
        self.problems.iter().filter_map(bad).collect()
    }

    /// The value of `name` by `parse`, which answers `None` for what it does not accept.
    pub(super) fn value<T: Default>(
        &mut self,
        name: &'static str,
        accepted: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> T {
        let known = known::find(name);
        if let Some(Given { text, origin }) = self.layered.get(name) {
            if let Some(value) = parse(text) {
                return value;
            }
            self.problems.push(Problem::BadValue {
                name,
                value: known.filter(|known| !known.secret).map(|_| text.clone()),
                origin: origin.clone(),
                accepted: accepted.to_owned(),
            });
        }
        known
            .and_then(|known| parse(known.default))
            .unwrap_or_default()
    }

    /// A duration longer than nothing.
    pub(super) fn duration(&mut self, name: &'static str) -> Duration {
        let longer_than_nothing = |text: &str| parse_duration(text).filter(|d| !d.is_zero());
        self.value(name, DURATION_FORMS, longer_than_nothing)
    }

    /// A whole number within bounds.
    pub(super) fn number(&mut self, name: &'static str, bounds: RangeInclusive<u32>) -> u32 {
        let accepted = format!("a whole number from {} to {}", bounds.start(), bounds.end());
        self.value(name, &accepted, |text| {
            text.trim()
                .parse()
                .ok()
                .filter(|number| bounds.contains(number))
        })
    }
}
