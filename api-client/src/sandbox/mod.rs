//! A stand-in platform: DeviantArt as far as it is documented, and a webhook receiver.
//!
//! It keeps a ledger of what became public, so that a test can say "exactly once" and mean it, and
//! it misbehaves on request.
//!
//! # Platform
//!
//! | path | behaviour |
//! |---|---|
//! | `POST /hook/{name}` | every accepted request is a new public post |
//! | `POST /dedupe/{name}` | one public post per `webhook-id`; repetitions are counted as replays |
//! | `POST /lookup/{name}`, `GET /lookup/{name}/{webhook-id}` | as `/hook`, and can be asked |
//! | `/oauth2/authorize`, `/oauth2/token` | code flow with PKCE that agrees at once; single-use refresh tokens |
//! | `/api/v1/oauth2/…` | `placebo`, `user/whoami`, `stash/submit`, `stash/publish`, `gallery/all` |
//!
//! The key of a webhook request is its `webhook-id`, that of a DeviantArt upload or publication its
//! title, that of a token request the code or refresh token it spends.
//!
//! # Control
//!
//! JSON over HTTP under `/_sandbox`, for other programs; the methods of [`Sandbox`] do the same
//! inside one.
//!
//! | request | does |
//! |---|---|
//! | `POST /faults` with a [`Fault`] | scripts a fault; the first that fits a request is played |
//! | `DELETE /faults` | forgets scripted faults |
//! | `GET /held?count=1&timeout_ms=5000` | waits until that many requests are held; 408 if not |
//! | `POST /release` with `{"id": N}` or `{}` | lets one held request go on, or all |
//! | `GET /ledger?key=…` | what became public: entries whose key contains the text |
//! | `GET /ledger/summary` | `keys`, `posts`, `replays`, and the keys that were `doubled` |
//! | `GET /requests?route=…` | the latest requests |
//! | `PUT /webhooks/{name}` with `{"secret": "whsec_…"}` | verifies signatures from now on |
//! | `POST /deviantart/tokens` | a new pair of tokens, as after a login |
//! | `POST /deviantart/expire` | ends all access tokens |
//! | `PUT /deviantart/limit` with `{"remaining": N}` or `{}` | 429 after N more requests; none |
//! | `POST /deviantart/works` with `{"title", "published_at"}` | a work made by somebody else |
//! | `POST /reset` | forgets everything and lets go of what is held |
//!
//! # Faults
//!
//! `{"route": "publish", "match": "part of the key", "times": 1, "after_accept": true,
//! "action": {"do": "reset"}}`. Everything but `action` may be left out. Actions:
//!
//! | action | the sender sees |
//! |---|---|
//! | `{"do": "answer", "status": 500, "headers": {…}, "body": "…"}` | that answer |
//! | `{"do": "blank"}` | 200 without a body |
//! | `{"do": "page"}` | 403 with a page for people |
//! | `{"do": "reset"}` | a reset connection; before accepting that is a refusal |
//! | `{"do": "hang"}` | nothing, ever |
//! | `{"do": "drip"}` | the right answer, one byte every 200 ms |
//! | `{"do": "hold"}` | nothing until released, then the right answer |

mod connection;
mod control;
mod deviantart;
mod fault;
mod ledger;
mod requests;
mod server;
mod stage;
mod webhook;

pub use deviantart::Pair;
pub use fault::{Action, Fault, Route};
pub use ledger::{Entry, Summary, Work};
pub use requests::Seen;
pub use server::Sandbox;
pub use stage::Held;
