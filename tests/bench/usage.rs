//! What processes cost, as `/proc` tells it.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

/// What `/proc` counts CPU time in: 100 a second on every Linux that programs see.
const TICK: Duration = Duration::from_millis(10);

/// The fields of `/proc/PID/stat` that matter here.
struct Stat {
    parent: u32,
    own_ticks: u32,
    ticks_of_ended_children: u32,
}

impl Stat {
    fn of(pid: u32) -> Result<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        // The name stands in parentheses and may hold anything.
        let (_, fields) = text.rsplit_once(')').context("/proc/PID/stat has a name")?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let number = |at: usize| -> Result<u32> {
            Ok(fields.get(at).context("/proc/PID/stat is short")?.parse()?)
        };
        Ok(Self {
            parent: number(1)?,
            own_ticks: number(11)? + number(12)?,
            ticks_of_ended_children: number(13)? + number(14)?,
        })
    }
}

/// The CPU time of one process so far.
pub(crate) fn cpu(pid: u32) -> Result<Duration> {
    Ok(TICK * Stat::of(pid)?.own_ticks)
}

/// The parent of a process: that of a PostgreSQL connection is the server.
pub(crate) fn parent(pid: u32) -> Result<u32> {
    Ok(Stat::of(pid)?.parent)
}

/// The CPU time of a server and all its children so far, those that ended included.
pub(crate) fn cpu_with_children(pid: u32) -> Result<Duration> {
    let server = Stat::of(pid)?;
    let mut ticks = server.own_ticks + server.ticks_of_ended_children;
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(child) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // A process may end while the list is read.
        if let Ok(stat) = Stat::of(child)
            && stat.parent == pid
        {
            ticks += stat.own_ticks;
        }
    }
    Ok(TICK * ticks)
}

/// CPU microseconds for each of `count`, where the CPU time was known before and after.
pub(crate) fn us_each(
    before: Option<Duration>,
    after: Option<Duration>,
    count: u64,
) -> Option<f64> {
    let spent = after?.checked_sub(before?)?;
    Some(spent.as_secs_f64() * 1e6 / count as f64)
}

/// The resident memory of a process in megabytes.
pub(crate) fn resident_mb(pid: u32) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .context("/proc/PID/status has VmRSS")?;
    let kb: f64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kb / 1024.0)
}
