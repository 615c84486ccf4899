//! `placewright pki`: the authority of an installation, and the certificates of its roles.

mod names;
mod show;
mod span;

use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::{Args, Subcommand};
use placewright_identity::{Identity, Role};
use placewright_pki::holder::{self, WritableFolder};
use placewright_pki::{Authority, Credentials, Grant, KeyRequest, RegisterEntry};
use placewright_roles::output::print;

use names::NameArgs;
use show::Format;
use span::TimeSpan;

/// The subcommands of `placewright pki`.
#[derive(Debug, Subcommand)]
pub(crate) enum PkiCommand {
    /// Make the authority of an installation
    #[command(
        after_help = "The authority is a folder: its key (ca-key.pem), its certificate (ca.pem), the \
        revocation list (crl.pem), and what it issued. It is valid for 10 years. Keep a copy of the folder \
        where nobody gets at it: whoever has ca-key.pem is every role and every host.\n\n\
        Example: an installation of three machines\n  \
        placewright pki init --pki /var/lib/placewright/pki --installation prod\n  \
        placewright pki issue --pki /var/lib/placewright/pki --role control --out /var/lib/placewright/identity\n  \
        placewright control --control-identity-path /var/lib/placewright/identity \\\n      \
        --control-authority-path /var/lib/placewright/pki\n  \
        placewright pki invite --pki /var/lib/placewright/pki --role cell --cell c1 --ends-in 1h\n  \
        placewright pki invite --pki /var/lib/placewright/pki --role agent --cell c1 --host h1 --ends-in 1h"
    )]
    Init {
        #[command(flatten)]
        authority: AuthorityArgs,
        /// The name of the installation, which is part of every certificate: a-z, 0-9, - and .
        #[arg(long, value_name = "NAME", default_value = "placewright")]
        installation: String,
    },
    /// Issue a certificate with a new key, into a folder for its holder
    #[command(
        after_help = "The folder gets identity.pem (certificate and key), ca.pem (whom to trust) and crl.pem. \
        Name it as control.identity_path, cell.identity_path or agent.identity_path. For a holder on another \
        machine `placewright pki invite` is better: its key is made there and travels nowhere.\n\n\
        What a certificate allows is in its names and in nothing else:\n  \
        placewright://INSTALLATION/control                     control\n  \
        placewright://INSTALLATION/cell/CELL                   that cell\n  \
        placewright://INSTALLATION/cell/CELL/host/HOST         an agent, for that host\n  \
        placewright://INSTALLATION/cell/CELL/host/HOST/UUID    an agent, for a host with a UUID of its own\n  \
        placewright://INSTALLATION/cell/CELL/host/PREFIX*      an agent, for all hosts whose names begin so\n  \
        placewright://INSTALLATION/cell/CELL/service/NAME      an agent, with that agent.service_host\n\
        An authority of your own writes them as URIs among the subject alternative names.\n\n\
        Example: an agent for two hosts, and one for a rack\n  \
        placewright pki issue --role agent --cell c1 --host h1 --host h2 --out /etc/placewright/identity\n  \
        placewright pki issue --role agent --cell c1 --host 'rack7-*' --out /etc/placewright/identity"
    )]
    Issue {
        #[command(flatten)]
        authority: AuthorityArgs,
        #[command(flatten)]
        names: NameArgs,
        /// The folder of the holder, made when missing
        #[arg(long, value_name = "DIRECTORY")]
        out: PathBuf,
    },
    /// Print a one-time word with which a cell or an agent gets its first certificate
    #[command(
        after_help = "Whoever has the word gets that one certificate, once, until it ends. The key is made \
        on the holder's machine. The authority keeps a hash of the word only, and five wrong tries end it. \
        Control has to run with control.authority_path.\n\n\
        Example:\n  \
        placewright pki invite --role agent --cell c1 --host h1 --ends-in 1h >word\n  \
        placewright agent --enrol word --agent-identity-path /var/lib/placewright/identity --agent-cell ADDRESS"
    )]
    Invite {
        #[command(flatten)]
        authority: AuthorityArgs,
        #[command(flatten)]
        names: NameArgs,
        /// How long the word is good for: 10m, 1h, 2d
        #[arg(long, value_name = "TIME", default_value = "1h")]
        ends_in: TimeSpan,
    },
    /// Renew the certificate in a holder's folder by hand
    #[command(
        after_help = "Roles renew their certificates by themselves, at two thirds of their life, as long as \
        control has the authority (control.authority_path). This is for an authority that is kept elsewhere. The \
        new certificate has a new key, says what the present one says, and is valid for as long."
    )]
    Renew {
        #[command(flatten)]
        authority: AuthorityArgs,
        /// The folder of the holder
        #[arg(long, value_name = "DIRECTORY")]
        holder: PathBuf,
    },
    /// Revoke certificates: they are refused everywhere within half a minute
    #[command(
        after_help = "Control reads the list again when it changes, cells and agents get it from there. \
        Connections that were made with a revoked certificate end. Invitations with the name are withdrawn, \
        so that nobody enrols with a word for it.\n\n\
        Example: everything of the host h1, by its name or by a serial number that `pki show` prints\n  \
        placewright pki revoke --name placewright://prod/cell/c1/host/h1\n  \
        placewright pki revoke --serial 4f1c…"
    )]
    Revoke {
        #[command(flatten)]
        authority: AuthorityArgs,
        /// A serial number; may be given several times
        #[arg(long, value_name = "HEX", required_unless_present = "name")]
        serial: Vec<String>,
        /// All certificates with this name (a URI); may be given several times
        #[arg(long, value_name = "URI")]
        name: Vec<String>,
    },
    /// Print what an authority issued, or what a holder has
    Show {
        #[command(flatten)]
        authority: AuthorityArgs,
        /// The folder of a holder, instead of the authority's
        #[arg(long, value_name = "DIRECTORY")]
        holder: Option<PathBuf>,
        /// Print expired certificates too
        #[arg(long)]
        all: bool,
        /// Print JSON, one object a line
        #[arg(long)]
        json: bool,
    },
}

/// The arguments with the location of the authority.
#[derive(Debug, Args)]
pub(crate) struct AuthorityArgs {
    /// The folder of the authority
    #[arg(long, value_name = "DIRECTORY", default_value = "pki")]
    pki: PathBuf,
}

impl PkiCommand {
    /// Runs the command in the folder of the authority, and prints the result.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Init {
                authority,
                installation,
            } => init(&authority.pki, &installation),
            Self::Issue {
                authority,
                names,
                out,
            } => {
                let authority = Authority::open(&authority.pki)?;
                let grant = names.grant(authority.installation())?;
                if holder::has_certificate(&out) {
                    bail!(
                        "{} has a certificate already: choose another folder, or renew it",
                        out.display()
                    );
                }
                let folder = WritableFolder::of(&out)?;
                let key_request = KeyRequest::new()?;
                // The authority's register names the operation that made a certificate.
                let issued = authority.issue(&grant, &key_request.request, "issue")?;
                folder.write(&key_request, &issued)?;
                print(&show::holder(&out, Format::Text)?)
            }
            Self::Invite {
                authority,
                names,
                ends_in,
            } => {
                let authority = Authority::open(&authority.pki)?;
                let grant = names.grant(authority.installation())?;
                if *grant.identity.role() == Role::Control {
                    bail!("control has nobody to ask: issue its certificate with `pki issue`");
                }
                let word = authority.invite(&grant, ends_in.0)?;
                print(&format!("{}\n", word.text()))
            }
            Self::Renew { authority, holder } => renew(&authority.pki, &holder),
            Self::Revoke {
                authority,
                serial,
                name,
            } => revoke(&authority.pki, &serial, &name),
            Self::Show {
                authority,
                holder,
                all,
                json,
            } => {
                let format = if json { Format::Json } else { Format::Text };
                match holder {
                    Some(holder) => print(&show::holder(&holder, format)?),
                    None => {
                        let authority = Authority::open(&authority.pki)?;
                        print(&show::authority(&authority, all, format)?)
                    }
                }
            }
        }
    }
}

fn init(directory: &Path, installation: &str) -> anyhow::Result<()> {
    let authority = Authority::create(directory, installation)?;
    print(&format!(
        "{} is the authority of {} now. Keep a copy of it where nobody gets at it.\n",
        directory.display(),
        authority.installation()
    ))
}

fn renew(directory: &Path, folder: &Path) -> anyhow::Result<()> {
    let authority = Authority::open(directory)?;
    let present = Credentials::load(folder, None)?.current();
    if !present.is_renewed_by_placewright {
        bail!(
            "{} has tls.crt and tls.key, which another authority writes: renew it there",
            folder.display()
        );
    }
    let writable = WritableFolder::of(folder)?;
    let key_request = KeyRequest::new()?;
    let issued = authority.renew(&present.certificate, &key_request.request)?;
    writable.write(&key_request, &issued)?;
    print(&show::holder(folder, Format::Text)?)
}

fn revoke(directory: &Path, serials: &[String], names: &[String]) -> anyhow::Result<()> {
    let authority = Authority::open(directory)?;
    for name in names {
        // A misspelt name beside a correct one would revoke nothing, and nobody would notice. So each name is parsed,
        // except the name of a service: it is no complete identity.
        if !name.contains("/service/") {
            Identity::parse([name.as_str()])?;
        }
    }
    let normalised = |text: &str| text.replace(':', "").to_lowercase();
    let serials: Vec<String> = serials.iter().map(|serial| normalised(serial)).collect();
    let unknown = without_match(&authority, &serials, names)?;
    if !unknown.is_empty() {
        bail!(
            "no certificate that is valid has this serial number or name, and no invitation this \
             name: {}; nothing is revoked",
            unknown.join(", ")
        );
    }
    let is_selected = |entry: &RegisterEntry| {
        serials.contains(&entry.serial) || entry.names.iter().any(|name| names.contains(name))
    };
    let revoked = authority.revoke(is_selected)?;
    let mut text = String::new();
    for entry in &revoked {
        let names = entry.names.join(" ");
        text.push_str(&match entry.serial.as_str() {
            // An invitation has no serial number.
            "" => format!("withdrew the invitation of {names}\n"),
            serial => format!("revoked {serial} {names}\n"),
        });
    }
    print(&text)
}

/// The serial numbers that no valid certificate has, and the names that neither a valid certificate nor an open
/// invitation has.
fn without_match<'a>(
    authority: &Authority,
    serials: &'a [String],
    names: &'a [String],
) -> anyhow::Result<Vec<&'a str>> {
    let at = placewright_pki::now();
    let entries = authority.entries()?;
    let valid = || {
        let valid = entries
            .iter()
            .filter(|(entry, revocation)| revocation.is_none() && entry.not_after > at);
        valid.map(|(entry, _)| entry)
    };
    let invitations = authority.open_invitations()?;
    let has_serial = |serial: &String| valid().any(|entry| entry.serial == *serial);
    let has_name = |name: &String| {
        valid().any(|entry| entry.names.contains(name))
            || invitations.iter().any(|open| open.names.contains(name))
    };
    let serials = serials.iter().filter(|serial| !has_serial(serial));
    let names = names.iter().filter(|name| !has_name(name));
    Ok(serials.chain(names).map(String::as_str).collect())
}

impl NameArgs {
    /// The names and the life of the certificate.
    fn grant(&self, installation: &str) -> anyhow::Result<Grant> {
        let identity = Identity::new(installation, self.role()?)?;
        Ok(Grant {
            dns: self.dns.clone(),
            addresses: self.ip.clone(),
            life: self.life.map_or(placewright_pki::LIFE, |life| life.0),
            ..Grant::new(identity)
        })
    }
}
