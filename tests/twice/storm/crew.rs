//! The workers of a storm, and what happens to them.

use std::time::{Duration, Instant};

use anyhow::Result;
use nix::sys::signal::Signal;
use rand::Rng;
use rand::rngs::StdRng;

use crate::program::Program;
use crate::world::{LEASE, World};

const WORKERS: usize = 4;

/// The workers, and how often which fate met them.
pub(super) struct Crew {
    workers: Vec<Hand>,
    killed: u32,
    paused: u32,
    fallen: u32,
}

struct Hand {
    program: Program,
    /// When it goes on, while it is paused.
    paused_until: Option<Instant>,
}

impl Hand {
    fn hire(world: &World) -> Result<Self> {
        Ok(Self {
            program: world.worker()?,
            paused_until: None,
        })
    }
}

impl Crew {
    pub(super) async fn muster(world: &World) -> Result<Self> {
        let mut workers = Vec::new();
        for _ in 0..WORKERS {
            workers.push(Hand::hire(world)?);
        }
        for hand in &mut workers {
            hand.program.ready().await?;
        }
        Ok(Self {
            workers,
            killed: 0,
            paused: 0,
            fallen: 0,
        })
    }

    /// Perhaps kills one, perhaps pauses one for longer than its lease; continues who has paused
    /// long enough.
    pub(super) async fn suffer(&mut self, world: &World, dice: &mut StdRng) -> Result<()> {
        self.replace_fallen(world).await?;
        let now = Instant::now();
        for hand in &mut self.workers {
            if hand.paused_until.is_some_and(|until| until <= now) {
                hand.program.signal(Signal::SIGCONT)?;
                hand.paused_until = None;
            }
        }
        let unlucky = dice.random_range(0..self.workers.len());
        match dice.random_range(0..100) {
            0..12 => {
                let hand = std::mem::replace(&mut self.workers[unlucky], Hand::hire(world)?);
                hand.program.kill().await?;
                self.killed += 1;
            }
            12..22 if self.workers[unlucky].paused_until.is_none() => {
                let pause = LEASE + Duration::from_millis(dice.random_range(200..2_500));
                let hand = &mut self.workers[unlucky];
                hand.program.signal(Signal::SIGSTOP)?;
                hand.paused_until = Some(now + pause);
                self.paused += 1;
            }
            _ => {}
        }
        Ok(())
    }

    /// A worker that started while the database was away has ended, as it should.
    pub(super) async fn replace_fallen(&mut self, world: &World) -> Result<()> {
        for hand in &mut self.workers {
            if hand.program.has_ended()? {
                *hand = Hand::hire(world)?;
                self.fallen += 1;
            }
        }
        Ok(())
    }

    /// The storm is over: everybody goes on. Says what they went through.
    pub(super) async fn recover(&mut self, world: &World) -> Result<String> {
        for hand in &mut self.workers {
            if hand.paused_until.take().is_some() {
                hand.program.signal(Signal::SIGCONT)?;
            }
        }
        self.replace_fallen(world).await?;
        Ok(format!(
            "{} killed, {} paused, {} found no database",
            self.killed, self.paused, self.fallen
        ))
    }

    pub(super) async fn dismiss(self) -> Result<()> {
        for hand in self.workers {
            hand.program.stop().await?;
        }
        Ok(())
    }
}
