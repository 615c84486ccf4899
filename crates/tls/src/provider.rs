//! The cryptography of all configurations.

use std::sync::{Arc, OnceLock};

use rustls::crypto::{CryptoProvider, ring};

/// The library ring with all its cipher suites: AES-GCM and ChaCha20-Poly1305; in TLS 1.2 only those with ECDHE.
pub fn provider() -> &'static Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    PROVIDER.get_or_init(|| Arc::new(ring::default_provider()))
}
