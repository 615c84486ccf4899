//! The rules that the sources and the documentation are held to. All of it is one test program, because each further
//! one would take seconds to build.

mod alerts;
mod arrows;
mod dependencies;
mod doc_comments;
mod docs;
mod left_out;
mod modules;
mod profiles;
mod ratchet;
mod security;
mod ways;
