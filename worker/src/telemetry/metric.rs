//! Every metric, by name: one function each, so that names and labels live in one place.
//!
//! They are counted through the `metrics` facade: until an [`Exporter`](super::Exporter) is
//! installed they go nowhere and cost next to nothing.

use std::time::Duration;

use metrics::{counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use uuid::Uuid;

pub(super) const STALE_DURATION: &str = "reaper_stale_duration";
pub(super) const ACQUIRE: &str = "punctual_acquire_seconds";
pub(super) const PUBLISH: &str = "punctual_publish_seconds";
pub(super) const LATENESS: &str = "punctual_lateness_seconds";
const RECOVERED: &str = "reaper_recovered_count";
const REAPER_RUNS: &str = "reaper_runs_total";
const CLAIMS: &str = "punctual_claims_total";
const LEASES_HELD: &str = "punctual_leases_held";
const LEASES_LOST: &str = "punctual_leases_lost_total";
const HEARTBEATS_FAILED: &str = "punctual_heartbeats_failed_total";
const UNCONFIRMED: &str = "punctual_unconfirmed";
const OLDEST_DUE: &str = "punctual_oldest_due_age_seconds";
const WORKER_DEATHS: &str = "punctual_worker_deaths_total";
const PANICS: &str = "punctual_panics_total";
const NOTICES_DELIVERED: &str = "punctual_notices_delivered_total";
const NOTICES_FAILED: &str = "punctual_notices_failed_total";
const LOG_LINES_LOST: &str = "punctual_log_lines_lost_total";
const JOBS: &str = "punctual_jobs_total";
const PRUNED: &str = "punctual_publications_pruned_total";
const WORKER_INFO: &str = "punctual_worker_info";

/// A publication was claimed.
pub fn claims_won(how_many: u64) {
    counter!(CLAIMS, "result" => "won").increment(how_many);
}

/// A claim came away empty-handed although work was due: others were faster. Normal.
pub fn claim_lost_race() {
    counter!(CLAIMS, "result" => "lost_race").increment(1);
}

/// How long a claiming statement took.
pub fn acquired_in(took: Duration) {
    histogram!(ACQUIRE).record(took);
}

/// How long a publication was held, from claim to settle, and how it ended (`published`, for one).
pub fn published_in(channel: &str, outcome: &'static str, took: Duration) {
    histogram!(PUBLISH, "channel" => channel.to_owned(), "outcome" => outcome).record(took);
}

/// How long after its instant a publication was started.
pub fn started_late_by(lateness: Duration) {
    histogram!(LATENESS).record(lateness);
}

/// How many leases this worker holds.
pub fn leases_held(now: usize) {
    gauge!(LEASES_HELD).set(as_f64(now as u64));
}

/// Leases that were taken from this worker or ran out.
pub fn leases_lost(how_many: u64) {
    counter!(LEASES_LOST).increment(how_many);
}

/// A heartbeat had not succeeded when the next was due.
pub fn heartbeat_failed() {
    counter!(HEARTBEATS_FAILED).increment(1);
}

/// The reaper ran and recovered so many publications.
pub fn reaper_ran(recovered: u64) {
    counter!(REAPER_RUNS).increment(1);
    counter!(RECOVERED).increment(recovered);
}

/// How long a recovered lock had been expired.
pub fn stale_for(expired_for: Duration) {
    histogram!(STALE_DURATION).record(expired_for);
}

/// How many publications may be live and nobody knows.
pub fn unconfirmed(now: u64) {
    gauge!(UNCONFIRMED).set(as_f64(now));
}

/// How long the oldest due publication of an open channel has been waiting.
pub fn oldest_due_age(age: Duration) {
    gauge!(OLDEST_DUE).set(age.as_secs_f64());
}

/// Another worker vanished without stopping.
pub fn worker_died() {
    counter!(WORKER_DEATHS).increment(1);
}

/// A task panicked and was contained.
pub fn panicked() {
    counter!(PANICS).increment(1);
}

/// An event reached `notify_url`.
pub fn notice_delivered() {
    counter!(NOTICES_DELIVERED).increment(1);
}

/// An event did not reach `notify_url`; it is tried again.
pub fn notice_failed() {
    counter!(NOTICES_FAILED).increment(1);
}

/// Log lines that did not fit into what waits, because stderr took none.
pub fn log_lines_lost(how_many: u64) {
    counter!(LOG_LINES_LOST).increment(how_many);
}

/// A scheduled job ran; `result` is `done`, `failed` or `panicked`.
pub fn job_ran(job: &'static str, result: &'static str) {
    counter!(JOBS, "job" => job, "result" => result).increment(1);
}

/// Retention took finished publications.
pub fn pruned(publications: u64) {
    counter!(PRUNED).increment(publications);
}

/// Who this worker is.
pub fn worker_info(worker_id: Uuid, version: &str) {
    gauge!(WORKER_INFO, "worker_id" => worker_id.to_string(), "version" => version.to_owned())
        .set(1.0);
}

/// Says what each metric means, and makes those that count from zero appear before they first move:
/// an alert on a counter that is not there never fires.
pub(super) fn describe() {
    describe_counter!(
        CLAIMS,
        "Publications claimed, and claims lost to other workers"
    );
    describe_histogram!(ACQUIRE, "Time a claiming statement took");
    describe_histogram!(
        PUBLISH,
        "Time a publication was held, by channel and outcome"
    );
    describe_histogram!(
        LATENESS,
        "Time between a publication's instant and its start"
    );
    describe_gauge!(LEASES_HELD, "Leases this worker holds");
    describe_counter!(
        LEASES_LOST,
        "Leases that were taken from this worker or ran out"
    );
    describe_counter!(
        HEARTBEATS_FAILED,
        "Heartbeats that had not succeeded when the next was due"
    );
    describe_counter!(REAPER_RUNS, "Runs of the reaper");
    describe_counter!(RECOVERED, "Publications recovered from vanished workers");
    describe_histogram!(STALE_DURATION, "Seconds a recovered lock had been expired");
    describe_gauge!(
        UNCONFIRMED,
        "Publications that may be live and nobody knows"
    );
    describe_gauge!(
        OLDEST_DUE,
        "How long the oldest due publication of an open channel has been waiting"
    );
    describe_counter!(WORKER_DEATHS, "Workers found to have vanished");
    describe_counter!(PANICS, "Panics that were contained");
    describe_counter!(NOTICES_DELIVERED, "Events that reached notify_url");
    describe_counter!(NOTICES_FAILED, "Failed tries to post an event");
    describe_counter!(
        LOG_LINES_LOST,
        "Log lines that were lost because nobody read them"
    );
    describe_counter!(JOBS, "Runs of scheduled jobs, by result");
    describe_counter!(PRUNED, "Finished publications that retention took");
    describe_gauge!(WORKER_INFO, "Who this worker is; always 1");
    for result in ["won", "lost_race"] {
        counter!(CLAIMS, "result" => result).increment(0);
    }
    for name in [
        RECOVERED,
        REAPER_RUNS,
        LEASES_LOST,
        HEARTBEATS_FAILED,
        WORKER_DEATHS,
        PANICS,
        NOTICES_DELIVERED,
        NOTICES_FAILED,
        LOG_LINES_LOST,
        PRUNED,
    ] {
        counter!(name).increment(0);
    }
    leases_held(0);
}

/// Exact up to 2^53.
#[expect(clippy::cast_precision_loss, reason = "no count here comes near 2^53")]
fn as_f64(count: u64) -> f64 {
    count as f64
}
