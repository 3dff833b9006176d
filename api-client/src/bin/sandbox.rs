//! The sandbox platform on its own: `sandbox [ADDRESS]`, by default on a free port of this machine.

use std::net::SocketAddr;
use std::process::ExitCode;

use api_client::sandbox::Sandbox;

#[tokio::main]
async fn main() -> ExitCode {
    let address = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "127.0.0.1:0".into());
    let Ok(address) = address.parse::<SocketAddr>() else {
        eprintln!("`{address}` is not an address such as 127.0.0.1:8282");
        return ExitCode::from(2);
    };
    match Sandbox::run(address).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cannot serve on {address}: {error}");
            ExitCode::FAILURE
        }
    }
}
