use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, oneshot};

use super::connection::Line;
use super::fault::{Action, Fault, Route};
use super::server::{World, locked};

/// A request that waits to be released.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Names it for the release.
    pub id: u64,
    /// What it is for.
    pub route: Route,
    /// Its key.
    pub key: String,
    /// Whether the platform has accepted it already.
    pub accepted: bool,
}

/// The requests that are held, and those that wait for some to be.
#[derive(Default)]
pub(super) struct Stage {
    held: Mutex<Holding>,
    changed: Notify,
    /// Ends hanging requests when the sandbox is reset.
    over: Notify,
}

#[derive(Default)]
struct Holding {
    last_id: u64,
    requests: BTreeMap<u64, (Held, oneshot::Sender<()>)>,
}

impl Stage {
    /// The requests held now.
    pub(super) fn list(&self) -> Vec<Held> {
        locked(&self.held)
            .requests
            .values()
            .map(|(held, _)| held.clone())
            .collect()
    }

    /// Waits until so many are held.
    pub(super) async fn wait(&self, count: usize) -> Vec<Held> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let held = self.list();
            if held.len() >= count {
                return held;
            }
            changed.await;
        }
    }

    /// Lets one go on, or all; says how many did.
    pub(super) fn release(&self, id: Option<u64>) -> usize {
        let mut holding = locked(&self.held);
        let released = match id {
            Some(id) => holding.requests.remove(&id).into_iter().collect::<Vec<_>>(),
            None => std::mem::take(&mut holding.requests)
                .into_values()
                .collect(),
        };
        let count = released.len();
        for (_, go_on) in released {
            // A request nobody waits for any more needs no word.
            let _ = go_on.send(());
        }
        count
    }

    pub(super) fn clear(&self) {
        self.release(None);
        self.over.notify_waiters();
    }

    async fn hold(&self, route: Route, key: String, accepted: bool) {
        let (go_on, released) = oneshot::channel();
        {
            let mut holding = locked(&self.held);
            holding.last_id += 1;
            let id = holding.last_id;
            holding.requests.insert(
                id,
                (
                    Held {
                        id,
                        route,
                        key,
                        accepted,
                    },
                    go_on,
                ),
            );
        }
        self.changed.notify_waiters();
        let _ = released.await;
    }
}

/// One request on its way through the sandbox.
pub(super) struct Scene {
    pub(super) world: World,
    pub(super) line: Line,
    pub(super) route: Route,
    pub(super) key: String,
}

impl Scene {
    /// Notes the request and answers it, or plays the fault that is scripted for it. `accept` is
    /// what the platform does when nothing is wrong.
    pub(super) async fn play(
        self,
        headers: &HeaderMap,
        accept: impl FnOnce(&World) -> Response + Send + 'static,
    ) -> Response {
        self.world.requests.note(self.route, &self.key, headers);
        match self.world.script.take(self.route, &self.key) {
            None => accept(&self.world),
            // A task of its own: a real platform goes on when the sender is killed.
            Some(fault) => tokio::spawn(self.misbehave(fault, accept))
                .await
                .unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response()),
        }
    }

    async fn misbehave(
        self,
        fault: Fault,
        accept: impl FnOnce(&World) -> Response + Send,
    ) -> Response {
        let Scene {
            world,
            line,
            route,
            key,
        } = self;
        let right = match (&fault.action, fault.after_accept) {
            (Action::Hold, false) => {
                world.stage.hold(route, key, false).await;
                Some(accept(&world))
            }
            (Action::Hold, true) => {
                let response = accept(&world);
                world.stage.hold(route, key, true).await;
                Some(response)
            }
            (Action::Drip, _) | (_, true) => Some(accept(&world)),
            (_, false) => None,
        };
        match fault.action {
            Action::Hold => right.unwrap_or_default(),
            Action::Drip => drip(right.unwrap_or_default()),
            Action::Blank => StatusCode::OK.into_response(),
            Action::Page => page(),
            Action::Reset => {
                line.cut();
                StatusCode::OK.into_response()
            }
            Action::Hang => {
                world.stage.over.notified().await;
                line.cut();
                StatusCode::OK.into_response()
            }
            Action::Answer {
                status,
                headers,
                body,
            } => answer(status, headers, body),
        }
    }
}

/// The page of a firewall.
pub(super) fn page() -> Response {
    let page = "<html><body><h1>403 Forbidden</h1><p>Request blocked.</p></body></html>";
    (
        StatusCode::FORBIDDEN,
        [("content-type", "text/html; charset=utf-8")],
        page,
    )
        .into_response()
}

fn answer(status: u16, headers: BTreeMap<String, String>, body: String) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::IM_A_TEAPOT);
    for (name, value) in headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

fn drip(response: Response) -> Response {
    let (mut head, body) = response.into_parts();
    let bytes = body.into_data_stream().flat_map(|chunk| {
        let chunk = chunk.unwrap_or_default();
        futures::stream::iter((0..chunk.len()).map(move |at| chunk.slice(at..=at)))
    });
    let slow = bytes.then(|byte| async move {
        tokio::time::sleep(Duration::from_millis(200)).await;
        Ok::<Bytes, std::convert::Infallible>(byte)
    });
    head.headers.remove("content-length");
    Response::from_parts(head, Body::from_stream(slow))
}
