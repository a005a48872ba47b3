//! Parts of the server that are served apart, and several addresses.

use crate::lab::{Lab, client};
use coracle_server::{Part, Parts};
use reqwest::StatusCode;
use tokio::net::TcpListener;

const OF_MCP: [&str; 2] = ["/mcp", "/.well-known/oauth-protected-resource"];
const OF_API: [&str; 4] = ["/api/auth/me", "/api/openapi.json", "/v1/models", "/skills"];
const OF_PAGE: [&str; 2] = ["/", "/sign-in"];
const ALWAYS: [&str; 4] = ["/health", "/livez", "/readyz", "/metrics"];

#[tokio::test]
async fn only_the_chosen_parts_are_served() {
    for chosen in [&[Part::Mcp][..], &[Part::Api], &[Part::Page], &[Part::Mcp, Part::Page], &Part::ALL] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let parts = Parts::only(chosen.iter().copied());
        let lab =
            Lab::start_on_all(vec![listener], |auth| auth.required = false, |options| options.parts = parts.clone());
        let served = [(Part::Mcp, &OF_MCP[..]), (Part::Api, &OF_API), (Part::Page, &OF_PAGE)];
        for (part, path) in served.iter().flat_map(|(part, paths)| paths.iter().map(move |path| (part, path))) {
            let status = lab.get(path).send().await.unwrap().status();
            assert_eq!(status != StatusCode::NOT_FOUND, parts.has(*part), "{path} of {chosen:?}: {status}");
        }
        for path in ALWAYS {
            assert_eq!(lab.get(path).send().await.unwrap().status(), StatusCode::OK, "{path} of {chosen:?}");
        }
    }
}

#[tokio::test]
async fn every_address_is_served() {
    let listen = async || TcpListener::bind("127.0.0.1:0").await.unwrap();
    let listeners = vec![listen().await, listen().await, listen().await];
    let addresses: Vec<String> =
        listeners.iter().map(|listener| format!("http://{}", listener.local_addr().unwrap())).collect();
    let _lab = Lab::start_on_all(listeners, |auth| auth.required = false, |_| {});
    for address in &addresses {
        // Each address is an origin of this server.
        let asked = client().get(format!("{address}/api/auth/me")).header("origin", address).send();
        assert_eq!(asked.await.unwrap().status(), StatusCode::OK);
    }
}
