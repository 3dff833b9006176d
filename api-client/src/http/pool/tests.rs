use std::time::Duration;

use futures::FutureExt;
use hyper_rustls::MaybeHttpsStream;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

use super::*;

fn origin() -> Arc<str> {
    "http://127.0.0.1:4000".into()
}

/// What a request gets that has a minute.
async fn turn(pool: &Pool) -> Turn {
    turn_to(pool, &origin()).await
}

async fn turn_to(pool: &Pool, origin: &Arc<str>) -> Turn {
    let deadline = Instant::now() + Duration::from_secs(60);
    let turn = pool.turn(origin, deadline).await;
    turn.expect("a minute is enough")
}

/// The seats of a host that has plenty of connections, all busy.
async fn plenty(pool: &Pool) -> Vec<Seat> {
    let mut seats = Vec::new();
    for _ in 0..PLENTY {
        match turn(pool).await {
            Turn::Open(seat) => seats.push(seat),
            Turn::Kept(..) => panic!("there is none to keep yet"),
        }
    }
    seats
}

/// A connection of ours, and its other end.
async fn connection() -> (Box<Connection>, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    let ours = TcpStream::connect(address).await.expect("it listens");
    let (theirs, _) = listener.accept().await.expect("it was called");
    let wire = MaybeHttpsStream::Http(TokioIo::new(ours));
    let connection = Connection::over(wire).await.expect("nothing is sent yet");
    (Box::new(connection), theirs)
}

async fn seat(pool: &Pool) -> Seat {
    match turn(pool).await {
        Turn::Open(seat) | Turn::Kept(seat, _) => seat,
    }
}

/// The host of these seats has taken so long for its answers.
fn note(seats: &[Seat], answers_ms: impl IntoIterator<Item = u64>) {
    for took in answers_ms {
        let mut lines = locked(&seats[0].host.lines);
        lines.pace.note(Duration::from_millis(took));
    }
}

fn is_kept(turn: Turn) -> bool {
    matches!(turn, Turn::Kept(..))
}

#[tokio::test(start_paused = true)]
async fn a_slow_host_gets_as_many_as_there_are_requests_each_after_a_moment() {
    let pool = Pool::default();
    let mut seats = plenty(&pool).await;
    note(&seats, [200, 200]);
    for _ in 0..10 {
        let asked_at = Instant::now();
        seats.push(seat(&pool).await);
        let waited = asked_at.elapsed();
        assert!((TURN..FIRST_TURN).contains(&waited), "{waited:?}");
    }
}

/// More connections would not make it answer more: it would only have more to answer. But it is never
/// left with too few for ever.
#[tokio::test(start_paused = true)]
async fn a_strained_host_gets_one_more_at_a_time_and_each_later_than_the_last() {
    let pool = Pool::default();
    let mut seats = plenty(&pool).await;
    note(&seats, [1, 20, 20, 20, 20]);
    let asked_at = Instant::now();
    seats.extend(futures::future::join_all((0..3).map(|_| seat(&pool))).await);
    let waited = asked_at.elapsed();
    let apart = TURN + 2 * APART + 3 * APART;
    assert!((apart..apart + APART).contains(&waited), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_host_that_has_not_answered_gets_no_more_for_a_while() {
    let pool = Pool::default();
    let _seats = plenty(&pool).await;
    let asked_at = Instant::now();
    futures::future::join_all((0..3).map(|_| seat(&pool))).await;
    let waited = asked_at.elapsed();
    assert!(
        (FIRST_TURN..FIRST_TURN + APART).contains(&waited),
        "{waited:?}"
    );
}

#[tokio::test]
async fn whoever_waits_goes_on_as_soon_as_another_is_done() {
    let pool = Pool::default();
    let mut seats = plenty(&pool).await;
    let mut waiting = Box::pin(turn(&pool));
    assert!(
        waiting.as_mut().now_or_never().is_none(),
        "there are plenty"
    );
    seats.pop();
    assert!(waiting.now_or_never().is_some());
}

/// Not even the right to open one: a connection that is opened for nobody is work for nothing.
#[tokio::test(start_paused = true)]
async fn whoever_has_no_time_left_gets_none() {
    let pool = Pool::default();
    let _seats = plenty(&pool).await;
    let asked_at = Instant::now();
    let none = pool.turn(&origin(), asked_at + FIRST_TURN / 2).await;
    assert!(none.is_none());
    assert_eq!(asked_at.elapsed(), FIRST_TURN / 2);
}

#[tokio::test]
async fn a_connection_serves_the_next_request_to_its_host_alone() {
    let pool = Pool::default();
    let (connection, _theirs) = connection().await;
    seat(&pool).await.give_back(connection, Instant::now());
    let elsewhere = "http://127.0.0.1:4001".into();
    assert!(!is_kept(turn_to(&pool, &elsewhere).await));
    let kept = turn(&pool).await;
    assert!(!is_kept(turn(&pool).await), "it is in use");
    assert!(is_kept(kept));
}

/// What was closed meanwhile would make the next commit ambiguous.
#[tokio::test]
async fn a_connection_that_was_closed_while_it_waited_is_not_used() {
    let pool = Pool::default();
    let (connection, theirs) = connection().await;
    seat(&pool).await.give_back(connection, Instant::now());
    drop(theirs);
    // The runtime hears of it when it next looks at its sockets.
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(!is_kept(turn(&pool).await));
}

#[tokio::test]
async fn a_connection_that_waited_too_long_is_not_used_and_is_swept_away() {
    let pool = Pool::default();
    for swept in [false, true] {
        let (connection, _theirs) = connection().await;
        seat(&pool).await.give_back(connection, Instant::now());
        for host in locked(&pool.hosts).values() {
            for (_, since) in &mut locked(&host.lines).idle {
                *since -= IDLE_CONNECTION;
            }
        }
        if swept {
            pool.sweep();
            assert!(
                locked(&pool.hosts).is_empty(),
                "nothing is left of the host"
            );
        }
        assert!(!is_kept(turn(&pool).await));
    }
}
