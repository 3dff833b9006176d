//! Times as people write them, gaps and overlaps among them.

use super::*;
use chrono::{Offset, TimeZone};
use chrono_tz::{TZ_VARIANTS, Tz};
use proptest::prelude::*;

fn noon() -> DateTime<Utc> {
    instant("2026-05-01T12:00:00Z")
}

fn instant(text: &str) -> DateTime<Utc> {
    DateTime::parse_from_rfc3339(text)
        .map(|instant| instant.to_utc())
        .unwrap_or_default()
}

/// What was read, as `instant zone`, or the refusal.
fn read(text: &str, zone: Option<&str>) -> String {
    match parse_when(text, zone, noon(), false) {
        Ok(when) => format!(
            "{} {}",
            when.at.format("%Y-%m-%dT%H:%M:%SZ"),
            when.time_zone
        ),
        Err(error) => error.to_string(),
    }
}

#[test]
fn every_accepted_form_is_read() {
    let berlin = Some("Europe/Berlin");
    for (text, zone, expected) in [
        ("now", None, "2026-05-01T12:00:00Z UTC"),
        ("Now ", berlin, "2026-05-01T12:00:00Z Europe/Berlin"),
        ("in 90m", None, "2026-05-01T13:30:00Z UTC"),
        ("in 2h30m", None, "2026-05-01T14:30:00Z UTC"),
        ("in 3d", berlin, "2026-05-04T12:00:00Z Europe/Berlin"),
        ("2026-06-01T09:00:00Z", None, "2026-06-01T09:00:00Z UTC"),
        (
            "2026-06-01T09:00:00+02:00",
            berlin,
            "2026-06-01T07:00:00Z Europe/Berlin",
        ),
        (
            "2026-06-01 09:00",
            berlin,
            "2026-06-01T07:00:00Z Europe/Berlin",
        ),
        (
            "2026-12-01 09:00:30",
            berlin,
            "2026-12-01T08:00:30Z Europe/Berlin",
        ),
        (
            "2026-12-01T09:00",
            berlin,
            "2026-12-01T08:00:00Z Europe/Berlin",
        ),
    ] {
        assert_eq!(read(text, zone), expected, "{text}");
    }
}

#[test]
fn what_is_no_time_is_refused_with_the_accepted_forms() {
    for text in [
        "",
        "soon",
        "in",
        "in 90",
        "in -5m",
        "2026-06-01",
        "09:00",
        "2026-13-01 09:00",
    ] {
        assert_eq!(
            read(text, Some("Europe/Berlin")),
            format!(
                "{text:?} is not a time; write now, in 90m, 2026-05-01T09:00:00Z, or 2026-05-01 \
                 09:00 with --tz"
            )
        );
    }
}

#[test]
fn a_leap_second_is_refused_because_it_cannot_be_stored() {
    for text in ["2026-06-30T23:59:60Z", "2026-06-30 23:59:60"] {
        assert!(read(text, Some("UTC")).contains("is not a time"), "{text}");
    }
}

#[test]
fn a_local_time_without_a_zone_asks_for_one() {
    assert_eq!(
        read("2026-06-01 09:00", None),
        "\"2026-06-01 09:00\" is a local time; say where with --tz, for example --tz Europe/Berlin"
    );
}

#[test]
fn an_unknown_zone_is_refused_with_the_nearest_known_one() {
    for (zone, near) in [
        ("Europe/Berln", "Europe/Berlin"),
        ("europe/berlin", "Europe/Berlin"),
        ("Berlin", "Europe/Berlin"),
        ("new york", "America/New_York"),
        ("Tokio", "Asia/Tokyo"),
    ] {
        assert_eq!(
            read("now", Some(zone)),
            format!("{zone:?} is not a time zone; did you mean {near}?")
        );
    }
    assert_eq!(
        read("now", Some("Xyzzyland")),
        "\"Xyzzyland\" is not a time zone; write an IANA name such as Europe/Berlin"
    );
}

#[test]
fn a_time_that_the_clocks_jump_over_offers_both_sides_of_the_jump() {
    assert_eq!(
        read("2027-03-28 02:30", Some("Europe/Berlin")),
        "2027-03-28 02:30:00 does not exist in Europe/Berlin: the clocks go forward there; choose \
         2027-03-28T01:59:59+01:00 (just before) or 2027-03-28T03:00:00+02:00 (just after)"
    );
}

/// Samoa left out a whole day when it crossed the date line.
#[test]
fn a_day_that_never_was_is_a_gap_too() {
    let result = parse_when("2011-12-30 12:00", Some("Pacific/Apia"), noon(), true);
    let text = result
        .err()
        .map(|error| error.to_string())
        .unwrap_or_default();
    assert!(text.contains("2011-12-29T23:59:59-10:00"), "{text}");
    assert!(text.contains("2011-12-31T00:00:00+14:00"), "{text}");
}

#[test]
fn a_time_that_comes_twice_offers_both_readings() {
    assert_eq!(
        read("2026-10-25 02:30", Some("Europe/Berlin")),
        "2026-10-25 02:30:00 comes twice in Europe/Berlin: the clocks go back there; choose \
         2026-10-25T02:30:00+02:00 (the first) or 2026-10-25T02:30:00+01:00 (the second)"
    );
}

/// WORK-5: `--allow-past` is an explicit wish.
#[test]
fn a_past_time_needs_leave() {
    assert_eq!(
        read("2026-05-01T11:58:59Z", None),
        "\"2026-05-01T11:58:59Z\" is in the past (2026-05-01T11:58:59Z); say --allow-past to \
         publish it at once"
    );
    assert_eq!(
        read("2026-05-01T11:59:00Z", None),
        "2026-05-01T11:59:00Z UTC"
    );
    assert!(parse_when("2026-05-01T11:58:59Z", None, noon(), true).is_ok());
}

#[test]
fn an_absurd_year_is_refused() {
    for text in [
        "20260-05-01 09:00",
        "1999-05-01T09:00:00Z",
        "2100-05-01 09:00",
        "in 36500d",
    ] {
        let result = parse_when(text, Some("UTC"), noon(), true);
        assert!(
            matches!(
                result,
                Err(WhenError::AbsurdYear { .. } | WhenError::NotATime { .. })
            ),
            "{text}: {result:?}"
        );
    }
    assert!(read("2206-05-01 09:00", Some("UTC")).contains("the years 2000 to 2099"));
}

fn any_zone() -> impl Strategy<Value = Tz> {
    proptest::sample::select(TZ_VARIANTS.as_slice())
}

/// Seconds from 2000-01-02 to 2099-12-30, so that no zone's local year is out of range.
fn any_second() -> impl Strategy<Value = i64> {
    946_771_200_i64..4_102_272_000
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn every_instant_survives_its_local_text_unless_it_comes_twice(
        second in any_second(),
        zone in any_zone(),
    ) {
        let at = Utc.timestamp_opt(second, 0).single().unwrap_or_default();
        let text = at.with_timezone(&zone).format("%Y-%m-%d %H:%M:%S").to_string();
        match parse_when(&text, Some(zone.name()), noon(), true) {
            Ok(when) => {
                prop_assert_eq!(when.at, at);
                prop_assert_eq!(when.time_zone, zone.name());
            }
            Err(WhenError::Overlap { first, second, .. }) => {
                prop_assert!(first < second);
                prop_assert!(first == at || second == at);
            }
            Err(other) => prop_assert!(false, "{}", other),
        }
    }
}

/// Every change of clocks of a year, in every zone.
#[test]
fn both_sides_of_every_gap_are_found() {
    let offset = |zone: Tz, at: DateTime<Utc>| {
        zone.offset_from_utc_datetime(&at.naive_utc())
            .fix()
            .local_minus_utc()
    };
    let mut gaps = 0;
    for zone in TZ_VARIANTS {
        for day in 0..365 {
            let midnight = instant("2027-01-01T00:00:00Z") + TimeDelta::days(day);
            let earlier = offset(zone, midnight);
            let forward = offset(zone, midnight + TimeDelta::days(1)) - earlier;
            if forward <= 0 {
                continue;
            }
            let jump = (0..=96)
                .map(|quarter| midnight + TimeDelta::minutes(15 * quarter))
                .find(|at| offset(zone, *at) != earlier)
                .unwrap_or_default();
            let skipped = jump.naive_utc() + TimeDelta::seconds((earlier + forward / 2).into());
            let text = skipped.format("%Y-%m-%d %H:%M:%S").to_string();
            match parse_when(&text, Some(zone.name()), noon(), true) {
                Err(WhenError::Gap { before, after, .. }) => {
                    assert_eq!(after.to_utc(), jump, "{zone} {text}");
                    assert_eq!(
                        before.to_utc(),
                        jump - TimeDelta::seconds(1),
                        "{zone} {text}"
                    );
                }
                other => panic!("{zone} {text} is a gap, not {other:?}"),
            }
            gaps += 1;
        }
    }
    assert!(gaps > 100, "only {gaps} changes of clocks were found");
}

/// The last accepted year still has its changes of clocks.
#[test]
fn summer_time_is_known_for_every_accepted_year() {
    assert_eq!(
        read(
            &format!("{}-07-01 12:00", YEARS.end()),
            Some("Europe/Berlin")
        ),
        "2099-07-01T10:00:00Z Europe/Berlin"
    );
}
