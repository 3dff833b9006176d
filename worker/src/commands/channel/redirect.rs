//! The little server that a platform sends the person back to.

use std::io;
use std::time::Duration;

use secrecy::SecretString;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use url::Url;

/// No browser sends more for one address.
const LONGEST_REQUEST: usize = 16 * 1024;
/// A connection that says nothing must not keep the others waiting.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// What the person came back with.
#[derive(Debug)]
pub(super) enum Answer {
    /// The code to exchange for tokens.
    Code(SecretString),
    /// The platform's word for why there is none.
    Refused(String),
}

/// Waits for the answer that carries `state`. Others are turned away and change nothing: any page
/// in the person's browser can call this address.
pub(super) async fn wait(listener: &TcpListener, state: &str) -> io::Result<Answer> {
    loop {
        let (mut stream, _) = listener.accept().await?;
        let Ok(Ok(target)) = tokio::time::timeout(REQUEST_TIMEOUT, target(&mut stream)).await
        else {
            continue;
        };
        let answer = answer(&target, state);
        let (status, text) = match &answer {
            Some(Answer::Code(_)) => ("200 OK", "Logged in. You can close this page."),
            Some(Answer::Refused(_)) => {
                ("200 OK", "The platform refused. You can close this page.")
            }
            None => (
                "404 Not Found",
                "This is not the answer that was waited for.",
            ),
        };
        // The person has the answer on the terminal too.
        let _ = tokio::time::timeout(REQUEST_TIMEOUT, reply(&mut stream, status, text)).await;
        if let Some(answer) = answer {
            return Ok(answer);
        }
    }
}

/// The target of the request: `/callback?code=…&state=…`.
async fn target(stream: &mut TcpStream) -> io::Result<String> {
    let mut request = Vec::new();
    let mut piece = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let read = stream.read(&mut piece).await?;
        if read == 0 || request.len() > LONGEST_REQUEST {
            break;
        }
        request.extend_from_slice(&piece[..read]);
    }
    let text = String::from_utf8_lossy(&request);
    let mut words = text.split_whitespace();
    match (words.next(), words.next()) {
        (Some("GET"), Some(target)) => Ok(target.to_owned()),
        _ => Ok(String::new()),
    }
}

fn answer(target: &str, state: &str) -> Option<Answer> {
    let url = Url::parse("http://127.0.0.1").ok()?.join(target).ok()?;
    let value = |name: &str| {
        url.query_pairs()
            .find_map(|(key, value)| (key == name).then(|| value.into_owned()))
    };
    if url.path() != "/callback" || value("state")? != state {
        return None;
    }
    match (value("code"), value("error")) {
        (Some(code), None) => Some(Answer::Code(code.into())),
        (_, Some(error)) => Some(Answer::Refused(error.chars().take(200).collect())),
        (None, None) => None,
    }
}

async fn reply(stream: &mut TcpStream, status: &str, text: &str) -> io::Result<()> {
    let reply = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{text}",
        text.len()
    );
    stream.write_all(reply.as_bytes()).await?;
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_answer_to_our_own_question_counts() {
        let code = |target| matches!(answer(target, "s1"), Some(Answer::Code(_)));
        assert!(code("/callback?code=c&state=s1"));
        for other in [
            "/callback?code=c&state=s2",
            "/callback?code=c",
            "/callback?state=s1",
            "/other?code=c&state=s1",
            "",
        ] {
            assert!(!code(other), "{other}");
        }
        let refused = answer("/callback?error=access_denied&state=s1", "s1");
        assert!(matches!(refused, Some(Answer::Refused(why)) if why == "access_denied"));
    }
}
