//! Answers the cells' requests to placement.

use futures_util::future::join_all;
use placewright_conductor::super_conductor::{Command, Outcome};
use placewright_conductor::{ClaimRequest, ClaimResponse};
use placewright_errors::chain;
use placewright_link::{LinkError, LinkFuture, PlacementLink};

use crate::cell_rights;
use crate::handle::ControlHandle;

/// The name of placement in errors.
const PEER: &str = "placement";

impl PlacementLink for ControlHandle {
    fn catch_up(&self) -> LinkFuture<'_, ()> {
        let confirming = self.engine().confirm();
        Box::pin(async move {
            confirming.await.map_err(|error| LinkError::Unavailable {
                peer: PEER.to_owned(),
                why: chain(&error),
            })
        })
    }

    fn authorize(&self, cell: &str, requests: &[ClaimRequest]) -> Result<(), String> {
        let engine = self.engine();
        engine.read_now(|machine| cell_rights::authorize(machine, cell, requests))
    }

    fn request_claims(&self, requests: Vec<ClaimRequest>) -> LinkFuture<'_, Vec<ClaimResponse>> {
        // All requests are submitted before any is awaited, so that they share one write to the journal.
        let submitted: Vec<_> = requests
            .into_iter()
            .map(|request| self.submit(Command::RequestClaim(request)))
            .collect();
        Box::pin(async move {
            let mut responses = Vec::with_capacity(submitted.len());
            for answer in join_all(submitted).await {
                let unavailable = |why: String| LinkError::Unavailable {
                    peer: PEER.to_owned(),
                    why,
                };
                match answer {
                    Ok(Ok(Outcome::ClaimAnswered(response))) => responses.push(response),
                    // A claim request has no other outcome than `ClaimAnswered`.
                    Ok(Ok(Outcome::Done | Outcome::Placed(_))) => {
                        return Err(unavailable(
                            "a claim request had an unexpected outcome".to_owned(),
                        ));
                    }
                    Ok(Err(refusal)) => return Err(unavailable(refusal.to_string())),
                    Err(error) => return Err(unavailable(error.to_string())),
                }
            }
            Ok(responses)
        })
    }
}
