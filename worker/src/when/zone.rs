//! Finding a time zone by its name.

use super::WhenError;
use crate::settings::suggest::nearest;
use chrono_tz::{TZ_VARIANTS, Tz};

/// The zone of this IANA name.
pub(super) fn find(name: &str) -> Result<Tz, WhenError> {
    name.trim().parse().map_err(|_| WhenError::UnknownZone {
        zone: name.to_owned(),
        suggestion: suggest(name).map(str::to_owned),
    })
}

/// People write `Berlin` and `new york` as well as `Europe/Berln`.
fn suggest(name: &str) -> Option<&'static str> {
    let word = name.trim().replace(' ', "_");
    let names = || TZ_VARIANTS.iter().map(|zone| zone.name());
    names()
        .find(|known| city(known).eq_ignore_ascii_case(&word))
        .or_else(|| nearest(&word, names()))
        .or_else(|| {
            let near = nearest(&word, names().map(city))?;
            names().find(|known| city(known) == near)
        })
}

fn city(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}
