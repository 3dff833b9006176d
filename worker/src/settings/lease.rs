//! BEAT-2: the durations that keep a lease safe must fit into it.

use super::Settings;
use super::duration::show_duration;
use super::problem::{Problem, SettingsError};
use std::time::Duration;

impl Settings {
    /// The slack between the end of a commit and the end of its lease: a twelfth of the lease.
    pub fn lease_margin(lease: Duration) -> Duration {
        lease / 12
    }

    /// Checks every rule of BEAT-2 with this lease, which `source` names in the sentences: `lease`
    /// for the setting, something like `lease of channel "blog"` for a channel's own.
    pub fn check_lease(&self, lease: Duration, source: &str) -> Result<(), SettingsError> {
        SettingsError::unless_empty(self.lease_problems(lease, source))
    }

    pub(super) fn lease_problems(&self, lease: Duration, source: &str) -> Vec<Problem> {
        let show = show_duration;
        let lease_is = format!("{source} = {}", show(lease));
        let margin = Self::lease_margin(lease);
        let mut problems = Vec::new();
        let mut require = |holds: bool, names: &[&'static str], sentence: String| {
            if !holds {
                problems.push(Problem::Conflict {
                    names: names.to_vec(),
                    sentence,
                });
            }
        };

        // Three beats must fit: one may be lost and one may be late before the lease ends.
        require(
            self.heartbeat_interval.saturating_mul(3) < lease,
            &["heartbeat_interval", "lease"],
            format!(
                "heartbeat_interval = {} is too long for {lease_is}: it must be less than a \
                 third of the lease",
                show(self.heartbeat_interval),
            ),
        );
        require(
            self.shutdown_timeout <= lease,
            &["shutdown_timeout", "lease"],
            format!(
                "shutdown_timeout = {} is too long for {lease_is}: it must not exceed the lease",
                show(self.shutdown_timeout),
            ),
        );
        require(
            self.reaper_interval < lease,
            &["reaper_interval", "lease"],
            format!(
                "reaper_interval = {} is too long for {lease_is}: it must be less than the lease",
                show(self.reaper_interval),
            ),
        );
        let one_request = self
            .request_timeout
            .saturating_add(self.heartbeat_interval)
            .saturating_add(margin);
        require(
            one_request <= lease,
            &["request_timeout", "heartbeat_interval", "lease"],
            format!(
                "request_timeout = {} and heartbeat_interval = {} do not fit into {lease_is}: \
                 together with a twelfth of the lease they must not exceed it",
                show(self.request_timeout),
                show(self.heartbeat_interval),
            ),
        );
        require(
            self.lock_timeout > self.publish_deadline.saturating_add(lease),
            &["lock_timeout", "publish_deadline", "lease"],
            format!(
                "lock_timeout = {} is too short for publish_deadline = {} and {lease_is}: it must \
                 be more than both together",
                show(self.lock_timeout),
                show(self.publish_deadline),
            ),
        );
        require(
            self.settling_delay >= self.publish_deadline,
            &["settling_delay", "publish_deadline"],
            format!(
                "settling_delay = {} is shorter than publish_deadline = {}: a post still on its \
                 way would be taken for absent",
                show(self.settling_delay),
                show(self.publish_deadline),
            ),
        );
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Sources;

    /// The sentences of a refusal; none when the settings were accepted.
    fn sentences(pairs: &[(&str, &str)]) -> Vec<String> {
        let sources = pairs.iter().fold(Sources::default(), |all, (name, value)| {
            all.with_flag(name, value)
        });
        match Settings::load(&sources) {
            Ok(_) => Vec::new(),
            Err(error) => error.problems.iter().map(ToString::to_string).collect(),
        }
    }

    /// BEAT-2: each rule, at its limit and one step beyond.
    #[test]
    fn each_lease_rule_holds_up_to_its_limit() {
        // Setting, the last value that is kept, the first that is refused, what it clashes with.
        let cases: [(&str, &str, &str, &[&str]); 5] = [
            ("shutdown_timeout", "60s", "61s", &["lease = 60s"]),
            ("reaper_interval", "59s", "60s", &["lease = 60s"]),
            (
                "request_timeout",
                "40s",
                "41s",
                &["heartbeat_interval = 15s", "lease = 60s"],
            ),
            (
                "lock_timeout",
                "661s",
                "660s",
                &["publish_deadline = 10m", "lease = 60s"],
            ),
            (
                "settling_delay",
                "600s",
                "599s",
                &["publish_deadline = 10m"],
            ),
        ];
        for (name, kept, refused, others) in cases {
            assert_eq!(sentences(&[(name, kept)]), Vec::<String>::new());
            let refusal = sentences(&[(name, refused)]);
            assert_eq!(refusal.len(), 1, "{refusal:?}");
            assert!(
                refusal[0].starts_with(&format!("{name} = ")),
                "{}",
                refusal[0]
            );
            for other in others {
                assert!(
                    refusal[0].contains(other),
                    "{other} is not in {}",
                    refusal[0]
                );
            }
        }
    }

    /// BEAT-2: the example of the contract.
    #[test]
    fn a_heartbeat_of_a_third_of_the_lease_is_refused_naming_both() {
        let with_heartbeat = |interval| {
            sentences(&[
                ("lease", "30s"),
                ("heartbeat_interval", interval),
                ("shutdown_timeout", "30s"),
                ("request_timeout", "5s"),
            ])
        };
        assert_eq!(with_heartbeat("9999ms"), Vec::<String>::new());
        assert_eq!(
            with_heartbeat("10s"),
            [
                "heartbeat_interval = 10s is too long for lease = 30s: it must be less than a third \
              of the lease"
            ]
        );
    }

    /// BEAT-2: a channel's own lease is held to the same rules.
    #[test]
    fn a_channels_own_lease_is_checked_and_named() -> Result<(), SettingsError> {
        let settings = Settings::load(&Sources::default())?;
        let name = "lease of channel \"blog\"";
        settings.check_lease(Duration::from_secs(120), name)?;
        let refusal = settings.check_lease(Duration::from_secs(40), name);
        let text = refusal
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default();
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(
            text.lines()
                .all(|line| line.contains(&format!("{name} = 40s"))),
            "{text}"
        );
        Ok(())
    }
}
