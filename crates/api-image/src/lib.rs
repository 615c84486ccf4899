//! The Image API, as in version 2 of OpenStack's: records that describe images, who may see and change them, and their
//! bytes.
//!
//! Records are rows of control's state. Bytes are files of one folder. A file has another name while it is written
//! piece by piece; it gets its final name when it is complete, and never changes after that.

mod access;
mod attributes;
mod create;
mod discovery;
mod error;
mod file;
mod filter;
mod folder;
mod hashing_writer;
mod images;
mod list;
mod members;
mod options;
mod patch;
mod properties;
mod request;
mod routes;
mod schemas;
mod service;
mod tags;
mod time;
mod transfers;
mod upload;
mod view;

pub use folder::{FolderError, ImageFolder};
pub use options::{ImageOptions, Limits};
pub use service::ImageService;
