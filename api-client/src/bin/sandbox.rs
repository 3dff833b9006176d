//! The sandbox platform on its own: `sandbox [ADDRESS]`, by default on a free port of this machine.

use std::error::Error;
use std::net::SocketAddr;

use api_client::sandbox::Sandbox;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "127.0.0.1:0".into());
    let address: SocketAddr = address
        .parse()
        .map_err(|_| format!("`{address}` is not an address such as 127.0.0.1:8282"))?;
    Ok(Sandbox::run(address).await?)
}
