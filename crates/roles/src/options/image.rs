//! The options of the Image API.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::kinds::{ClientCertificateMode, Number, PlainHttpMode};
use super::spec::section;

section! {
    /// The image API (`docs/image-api.md`): what clients need of OpenStack Image v2, with the bytes of images in a
    /// folder. With it, servers are created of the images that it has, and no others.
    image: ImageApiOptions {
        /// Address and port to listen on, 127.0.0.1:9292 for example. Not set: there is no image API.
        listen: Option<SocketAddr> = "";
        /// Scheme and host that clients use (`https://cloud.example:9292`), if they differ from those in the requests
        /// that arrive, as behind a proxy. The catalog of `auth.strategy = "identity"` names them.
        public_url: Option<String> = "";
        /// The folder with the bytes of images, made when missing: a file for each, named by its UUID. Replicas of control
        /// share one. Not set: `images` in the folder of the store.
        folder: Option<PathBuf> = "";
        /// The most images that a project may have.
        #[unit("images")]
        images_max: Number<0, 1_000_000> = "1000";
        /// The most bytes that a project's images may have together, those that are arriving counted.
        #[unit("bytes")]
        project_bytes_max: Number<0, 1_125_899_906_842_624> = "1099511627776";
        /// The most bytes of one image.
        #[unit("bytes")]
        image_bytes_max: Number<1, 1_125_899_906_842_624> = "274877906944";
        /// How many bytes uploads leave free in the file system of the folder.
        #[unit("bytes")]
        free_bytes_min: Number<0, 1_125_899_906_842_624> = "1073741824";
        /// The most uploads at the same time, and the most downloads. A project has a quarter of them at most.
        #[unit("transfers")]
        transfers_max: Number<4, 10_000> = "64";
        /// A file with the certificate (PEM) that the image API shows, then those of the authorities between it
        /// and the root. With it the port takes HTTPS; docs/operations.md, "TLS". Not set: HTTP only.
        tls_certificate: Option<PathBuf> = "";
        /// The file with the private key of the certificate. Not set: the key is in the file `tls_certificate`, too.
        tls_key: Option<PathBuf> = "";
        /// A file with the authorities (PEM) that sign clients' certificates, with their revocation lists, if any.
        tls_client_ca: Option<PathBuf> = "";
        /// Whether clients show a certificate: `off` requests none, `optional` refuses certificates that are not
        /// valid, `required` also refuses clients without one.
        tls_client_certificates: ClientCertificateMode = "off";
        /// Whether HTTP without TLS is served on the same port, or refused with 400.
        tls_plain: PlainHttpMode = "allow";
    }
}
