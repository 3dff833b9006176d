use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, interval, timeout_at};

use self::pace::{Pace, Strain};
use super::client::IDLE_CONNECTION;
use super::connection::Connection;
use crate::locked::locked;

mod pace;

/// From so many connections to one host on, it is waited for one that comes free.
const PLENTY: usize = 8;
/// How long that is waited for before one more is opened: a host that takes its time is served by as
/// many as there are requests.
const TURN: Duration = Duration::from_millis(5);
/// The same where the host has not answered yet.
const FIRST_TURN: Duration = Duration::from_millis(50);
/// Where the host is strained, more connections only give it more to do: then they become more slowly,
/// one in this time, the next in twice as long, and so on.
const APART: Duration = Duration::from_millis(100);

/// Connections that wait for their next request, by the origin they serve.
#[derive(Default)]
pub(super) struct Pool {
    hosts: Mutex<HashMap<Arc<str>, Arc<Host>>>,
    swept: OnceLock<()>,
}

/// The connections to one host.
#[derive(Default)]
struct Host {
    lines: Mutex<Lines>,
    freed: Notify,
}

#[derive(Default)]
struct Lines {
    idle: Vec<(Box<Connection>, Instant)>,
    /// Those that are in use or being opened.
    busy: usize,
    pace: Pace,
    /// When there last became more of them than plenty.
    grown_at: Option<Instant>,
}

/// The right to one connection of a host: given back with the connection, or without it.
pub(super) struct Seat {
    host: Arc<Host>,
}

/// What a request gets.
pub(super) enum Turn {
    /// A connection that has been used before.
    Kept(Seat, Box<Connection>),
    /// A new one may be opened.
    Open(Seat),
}

impl Pool {
    /// A connection to this origin, or the right to open one; none by the deadline.
    pub(super) async fn turn(&self, origin: &Arc<str>, deadline: Instant) -> Option<Turn> {
        let host = self.host(origin);
        if let Some(turn) = host.turn() {
            return Some(turn);
        }
        // Boxed like everything that is rarely needed: a request has room for what it awaits.
        Box::pin(host.wait(deadline)).await
    }

    fn host(&self, origin: &Arc<str>) -> Arc<Host> {
        let mut hosts = locked(&self.hosts);
        match hosts.get(origin) {
            Some(host) => host.clone(),
            None => hosts.entry(origin.clone()).or_default().clone(),
        }
    }

    /// Closes, as long as there is a pool, what has not been used for a while.
    pub(super) fn keep_swept(self: &Arc<Self>) {
        self.swept.get_or_init(|| {
            let pool = Arc::downgrade(self);
            tokio::spawn(async move {
                let mut ticks = interval(IDLE_CONNECTION / 2);
                while let Some(pool) = pool.upgrade() {
                    pool.sweep();
                    drop(pool);
                    ticks.tick().await;
                }
            });
        });
    }

    fn sweep(&self) {
        locked(&self.hosts).retain(|_, host| {
            let mut lines = locked(&host.lines);
            lines.idle.retain(|(_, since)| is_fresh(*since));
            lines.busy > 0 || !lines.idle.is_empty()
        });
    }
}

fn is_fresh(since: Instant) -> bool {
    since.elapsed() < IDLE_CONNECTION
}

impl Host {
    /// None if there are plenty and all are busy.
    fn turn(self: &Arc<Self>) -> Option<Turn> {
        let mut lines = locked(&self.lines);
        // The last one used is the least likely to have been closed meanwhile.
        while let Some((mut connection, since)) = lines.idle.pop() {
            if is_fresh(since) && connection.is_ready() {
                return Some(Turn::Kept(self.seat(lines), connection));
            }
        }
        (lines.busy < PLENTY).then(|| Turn::Open(self.seat(lines)))
    }

    /// Waits for one that comes free, as long as that is better than to open another. One timer is for
    /// both ends of it: where hundreds wait, each timer is work.
    async fn wait(self: Arc<Self>, deadline: Instant) -> Option<Turn> {
        let since = Instant::now();
        loop {
            let latest = {
                let now = Instant::now();
                if now >= deadline {
                    return None;
                }
                let mut lines = locked(&self.lines);
                let latest = lines.may_grow_at(since);
                if now >= latest {
                    lines.grown_at = Some(now);
                    return Some(Turn::Open(self.seat(lines)));
                }
                latest.min(deadline)
            };
            if timeout_at(latest, self.freed.notified()).await.is_ok()
                && let Some(turn) = self.turn()
            {
                return Some(turn);
            }
        }
    }

    fn seat(self: &Arc<Self>, mut lines: MutexGuard<'_, Lines>) -> Seat {
        lines.busy += 1;
        Seat { host: self.clone() }
    }
}

impl Lines {
    /// From when on a request that has waited since then may open one more.
    fn may_grow_at(&self, since: Instant) -> Instant {
        match self.pace.strain() {
            Strain::Unknown => since + FIRST_TURN,
            Strain::AtEase => since + TURN,
            Strain::Strained => {
                let more = self.busy.saturating_sub(PLENTY).saturating_add(1);
                let apart = APART * u32::try_from(more).unwrap_or(u32::MAX);
                let apart = self.grown_at.map_or(since, |at| at + apart);
                apart.max(since + TURN)
            }
        }
    }
}

impl Seat {
    /// Keeps a connection for whoever comes next; it was asked at this instant, and has answered.
    pub(super) fn give_back(self, connection: Box<Connection>, asked_at: Instant) {
        let now = Instant::now();
        let mut lines = locked(&self.host.lines);
        lines.pace.note(now - asked_at);
        lines.idle.push((connection, now));
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        locked(&self.host.lines).busy -= 1;
        self.host.freed.notify_one();
    }
}

#[cfg(test)]
mod tests;
