use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

/// Cuts a connection from inside a request.
#[derive(Debug, Clone, Default)]
pub(super) struct Line(Arc<AtomicBool>);

impl Line {
    /// The next byte written resets the connection instead.
    pub(super) fn cut(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn is_cut(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Accepts connections that can be cut.
pub(super) struct Doors(pub(super) TcpListener);

impl Listener for Doors {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        let (stream, address) = Listener::accept(&mut self.0).await;
        // Answers are small: waiting to fill a packet would only slow them down.
        let _ = stream.set_nodelay(true);
        (
            Connection {
                stream,
                line: Line::default(),
            },
            address,
        )
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

impl Connected<IncomingStream<'_, Doors>> for Line {
    fn connect_info(stream: IncomingStream<'_, Doors>) -> Self {
        stream.io().line.clone()
    }
}

pub(super) struct Connection {
    stream: TcpStream,
    line: Line,
}

impl Connection {
    /// Fails if the line was cut, and makes the close a reset.
    fn whole(&self) -> io::Result<()> {
        if self.line.is_cut() {
            self.stream.set_zero_linger()?;
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        Ok(())
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.whole()?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.whole()?;
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.whole()?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.whole()?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
