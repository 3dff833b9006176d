//! What the platform does in a storm.

use api_client::sandbox::{Action, Fault, Route, Sandbox};
use rand::Rng;
use rand::rngs::StdRng;

/// Faults at random.
pub(super) struct Weather(StdRng);

impl Weather {
    pub(super) fn new(dice: StdRng) -> Self {
        Self(dice)
    }

    /// Scripts a few faults for whoever comes next. A platform may fail in any way, but it does not
    /// lie: it gives no clear answer that is not true.
    pub(super) fn blow(&mut self, sandbox: &Sandbox) {
        for _ in 0..self.0.random_range(0..4) {
            let route = match self.0.random_range(0..10) {
                0..5 => Route::Webhook,
                5..8 => Route::Publish,
                8 => Route::Lookup,
                _ => Route::Gallery,
            };
            let fault = match self.0.random_range(0..12) {
                0 => Fault::once(route, Action::status(429).with("retry-after", "1")),
                1 => Fault::once(route, Action::status(422)),
                2 | 3 => Fault::once(route, Action::status(500)),
                4 | 5 => Fault::once(route, Action::status(500)).after_accept(),
                6 => Fault::once(route, Action::Reset),
                7 => Fault::once(route, Action::Reset).after_accept(),
                // A webhook that says 200 has accepted, whatever else it says.
                8 => Fault::once(route, Action::Blank).after_accept(),
                9 => Fault::once(route, Action::Hang),
                10 => Fault::once(route, Action::Hang).after_accept(),
                _ => Fault::once(route, Action::Drip),
            };
            sandbox.script(fault);
        }
    }
}
