//! Serves a script file: `cargo run -p coracle-scripted-model --example serve -- 127.0.0.1:8765 script.yaml`.
//!
//! Without a file, it answers by rule. Besides the wires it has `POST` and `DELETE /scripted/gates/NAME`, which open and
//! close a gate, and `GET /scripted/requests`.

use std::error::Error;

use coracle_scripted_model::{Library, ScriptedModel, serve_with_control};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let library = match arguments.next() {
        Some(path) => Library::parse(&std::fs::read_to_string(path)?)?,
        None => Library::default(),
    };
    let listener = TcpListener::bind(address).await?;
    println!("http://{}", listener.local_addr()?);
    let interrupted = async { drop(tokio::signal::ctrl_c().await) };
    serve_with_control(listener, ScriptedModel::new(library)?, interrupted).await?;
    Ok(())
}
