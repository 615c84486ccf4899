//! The types of option values, and their parsers.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use placewright_conductor::quota::{Limits, Resource, UNLIMITED};
use uuid::Uuid;

/// The largest limit of a quota.
const QUOTA_MAX: i64 = i32::MAX as i64;

/// The syntax of a value in the configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueSyntax {
    /// A string in quotes.
    Text,
    /// A whole number without quotes.
    Number,
    /// The words `true` or `false`.
    Flag,
    /// An array of strings. In the environment and on the command line the strings are separated by commas.
    List,
}

/// A type that can be the value of an option.
pub trait OptionType: Sized {
    /// The syntax of its values in the configuration file.
    const SYNTAX: ValueSyntax = ValueSyntax::Text;

    /// Parses a value; `None` if the text is not valid.
    fn parse(text: &str) -> Option<Self>;

    /// Describes the allowed values, for a sentence that begins with "allowed: ".
    fn describe_allowed() -> String;
}

/// A whole number between two bounds, both allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Number<const MIN: i64, const MAX: i64>(i64);

impl<const MIN: i64, const MAX: i64> Number<MIN, MAX> {
    /// The number as a signed integer.
    pub fn get(self) -> i64 {
        self.0
    }

    /// The number as a count; a negative one, which means no limit, becomes the maximum.
    pub fn count(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl<const MIN: i64, const MAX: i64> OptionType for Number<MIN, MAX> {
    const SYNTAX: ValueSyntax = ValueSyntax::Number;

    fn parse(text: &str) -> Option<Self> {
        let number = text.parse().ok()?;
        (MIN..=MAX).contains(&number).then_some(Self(number))
    }

    fn describe_allowed() -> String {
        format!("a whole number from {MIN} to {MAX}")
    }
}

/// A number above 0, perhaps with a fraction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio(pub f32);

impl OptionType for Ratio {
    fn parse(text: &str) -> Option<Self> {
        let ratio: f32 = text.parse().ok()?;
        (ratio.is_finite() && ratio > 0.0).then_some(Self(ratio))
    }

    fn describe_allowed() -> String {
        "a number more than 0, as a text: \"4.0\"".to_owned()
    }
}

impl OptionType for bool {
    const SYNTAX: ValueSyntax = ValueSyntax::Flag;

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn describe_allowed() -> String {
        "true or false".to_owned()
    }
}

impl OptionType for String {
    fn parse(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| text.to_owned())
    }

    fn describe_allowed() -> String {
        "a text that is not empty".to_owned()
    }
}

impl OptionType for Option<String> {
    fn parse(text: &str) -> Option<Self> {
        Some((!text.is_empty()).then(|| text.to_owned()))
    }

    fn describe_allowed() -> String {
        "a text; empty means not set".to_owned()
    }
}

impl OptionType for Option<PathBuf> {
    fn parse(text: &str) -> Option<Self> {
        Some((!text.is_empty()).then(|| PathBuf::from(text)))
    }

    fn describe_allowed() -> String {
        "a path; empty means not set".to_owned()
    }
}

impl OptionType for Option<Uuid> {
    fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(None);
        }
        Uuid::try_parse(text).ok().map(Some)
    }

    fn describe_allowed() -> String {
        "a UUID; empty means not set".to_owned()
    }
}

impl OptionType for SocketAddr {
    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn describe_allowed() -> String {
        "an IP address with a port, as in 127.0.0.1:8778 or [::1]:8778".to_owned()
    }
}

impl OptionType for Option<SocketAddr> {
    fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(None);
        }
        text.parse().ok().map(Some)
    }

    fn describe_allowed() -> String {
        "an IP address with a port, as in 127.0.0.1:8779 or [::1]:8779; empty means not set"
            .to_owned()
    }
}

impl OptionType for Vec<String> {
    const SYNTAX: ValueSyntax = ValueSyntax::List;

    fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self::new());
        }
        let items: Self = text.split(',').map(|item| item.trim().to_owned()).collect();
        items.iter().all(|item| !item.is_empty()).then_some(items)
    }

    fn describe_allowed() -> String {
        "a list of texts; in the environment and on the command line separated by commas".to_owned()
    }
}

/// Users with their roles: the name, the roles, and the project, if one is named for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserGrants(pub Vec<(String, Vec<String>, Option<String>)>);

impl OptionType for UserGrants {
    const SYNTAX: ValueSyntax = ValueSyntax::List;

    fn parse(text: &str) -> Option<Self> {
        let users = Vec::<String>::parse(text)?;
        let users = users.iter().map(|user| {
            let (name, grants) = user.split_once('=')?;
            let (roles, project) = match grants.split_once('@') {
                Some((roles, project)) => (roles, Some(project.to_owned())),
                None => (grants, None),
            };
            let roles = roles.split('+').filter(|role| !role.is_empty());
            let roles = roles.map(str::to_owned).collect();
            let is_complete = !name.is_empty() && project.as_deref() != Some("");
            is_complete.then(|| (name.to_owned(), roles, project))
        });
        users.collect::<Option<_>>().map(Self)
    }

    fn describe_allowed() -> String {
        "a list of texts NAME=ROLE+ROLE or NAME=ROLE+ROLE@PROJECT_ID; in the environment and on the \
         command line separated by commas"
            .to_owned()
    }
}

/// A list of IP addresses, without ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addresses(pub Vec<IpAddr>);

impl OptionType for Addresses {
    const SYNTAX: ValueSyntax = ValueSyntax::List;

    fn parse(text: &str) -> Option<Self> {
        let addresses = Vec::<String>::parse(text)?;
        let addresses = addresses.iter().map(|address| address.parse().ok());
        addresses.collect::<Option<_>>().map(Self)
    }

    fn describe_allowed() -> String {
        "a list of IP addresses as texts; in the environment and on the command line separated by \
         commas"
            .to_owned()
    }
}

/// Cells: name, UUID, and address of each; of several replicas of a cell all addresses, separated by commas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CellAddresses(pub Vec<(String, Uuid, String)>);

impl OptionType for CellAddresses {
    const SYNTAX: ValueSyntax = ValueSyntax::List;

    fn parse(text: &str) -> Option<Self> {
        let cells = Vec::<String>::parse(text)?;
        let cells = cells.iter().map(|cell| {
            let (name, uuid_and_addresses) = cell.split_once('=')?;
            let (uuid, addresses) = uuid_and_addresses.split_once('@')?;
            let uuid = Uuid::try_parse(uuid).ok()?;
            let mut each = addresses.split('+');
            let is_complete = !name.is_empty() && each.all(|a| !a.is_empty()) && !uuid.is_nil();
            is_complete.then(|| (name.to_owned(), uuid, addresses.replace('+', ",")))
        });
        cells.collect::<Option<_>>().map(Self)
    }

    fn describe_allowed() -> String {
        "a list of texts NAME=UUID@HOST:PORT, or NAME=UUID@HOST:PORT+HOST:PORT with the addresses of \
         several replicas; in the environment and on the command line separated by commas"
            .to_owned()
    }
}

/// Quotas: the limit of each resource, as `instances=10`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QuotaDefaults(pub Limits);

impl OptionType for QuotaDefaults {
    const SYNTAX: ValueSyntax = ValueSyntax::List;

    fn parse(text: &str) -> Option<Self> {
        let limits = Vec::<String>::parse(text)?.into_iter().map(|text| {
            let (name, limit) = text.split_once('=')?;
            let limit = limit.trim().parse().ok();
            let limit = limit.filter(|limit| (UNLIMITED..=QUOTA_MAX).contains(limit))?;
            Some((Resource::parse(name.trim())?, limit))
        });
        limits.collect::<Option<_>>().map(Self)
    }

    fn describe_allowed() -> String {
        "a list of texts RESOURCE=LIMIT, with -1 for unlimited; in the environment and on the \
         command line separated by commas"
            .to_owned()
    }
}

/// Makes an enum of the values that an option may have, each with its text in the configuration.
macro_rules! choices {
    ($(#[doc = $doc:literal])* $Name:ident { $($(#[doc = $help:literal])* $Variant:ident = $text:literal,)+ }) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $Name {
            $($(#[doc = $help])* $Variant,)+
        }

        impl $Name {
            /// The value as the configuration has it.
            pub fn text(self) -> &'static str {
                match self {
                    $(Self::$Variant => $text,)+
                }
            }
        }

        impl OptionType for $Name {
            fn parse(text: &str) -> Option<Self> {
                match text {
                    $($text => Some(Self::$Variant),)+
                    _ => None,
                }
            }

            fn describe_allowed() -> String {
                [$($text),+].join(", ")
            }
        }
    };
}

choices! {
    /// The order in which allocation candidates are searched.
    CandidateStrategy {
        /// All candidates of a root provider before the next root.
        DepthFirst = "depth-first",
        /// One candidate of each root in turn.
        BreadthFirst = "breadth-first",
    }
}

choices! {
    /// How clients are authenticated: the option `auth.strategy`.
    AuthStrategy {
        /// The client states who it is, without proof.
        Noauth2 = "noauth2",
        /// Passwords, checked against an htpasswd file.
        HttpBasic = "http_basic",
        /// Tokens, validated by a Keystone v3 API.
        Keystone = "keystone",
        /// Tokens that this installation issues itself.
        Identity = "identity",
    }
}

choices! {
    /// Whether clients of a listener need a certificate.
    ClientCertificateMode {
        /// No certificate is requested.
        Off = "off",
        /// Clients may show a certificate, which has to be valid.
        Optional = "optional",
        /// Clients have to show a valid certificate.
        Required = "required",
    }
}

choices! {
    /// How a listener with a certificate treats clients that use HTTP without TLS.
    PlainHttpMode {
        /// The listener serves such clients.
        Allow = "allow",
        /// The listener refuses such clients.
        Refuse = "refuse",
    }
}

choices! {
    /// Where the quotas of projects come from: the option `compute.quota_driver`.
    QuotaDriver {
        /// The compute API and the configuration.
        Local = "local",
        /// Keystone's registered limits and limits of projects.
        Unified = "unified",
    }
}

choices! {
    /// The driver of an agent.
    DriverKind {
        /// Builds nothing: it takes time, and fails as often as configured.
        Simulated = "simulated",
        /// Runs executables that the operator provides.
        Command = "command",
    }
}

choices! {
    /// How long user data is kept.
    UserDataUntil {
        /// Until the server is deleted.
        Deleted = "deleted",
        /// Until the guest exists.
        Built = "built",
    }
}

choices! {
    /// Where the audit log goes.
    AuditDestination {
        /// Nowhere: no audit log is written.
        Off = "off",
        /// To the end of the file that `audit.file` names.
        File = "file",
        /// To the machine's syslog.
        Syslog = "syslog",
        /// To the process's standard error.
        Stderr = "stderr",
    }
}

choices! {
    /// The format of log lines.
    LogFormat {
        /// Plain text, for people.
        Text = "text",
        /// One JSON object per line.
        Json = "json",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_to_their_bounds() {
        type Percent = Number<0, 100>;
        for (text, number) in [
            ("0", Some(0)),
            ("100", Some(100)),
            ("101", None),
            ("-1", None),
            ("1e1", None),
            ("", None),
        ] {
            assert_eq!(Percent::parse(text).map(Number::get), number, "{text}");
        }
    }

    #[test]
    fn users_have_roles_and_perhaps_a_project() {
        let grants = UserGrants::parse("alice=admin+reader@p1,bob=").unwrap();
        let roles = vec!["admin".to_owned(), "reader".to_owned()];
        let alice = ("alice".to_owned(), roles, Some("p1".to_owned()));
        assert_eq!(grants.0, [alice, ("bob".to_owned(), vec![], None)]);
        for text in ["alice", "=admin", "alice=admin@"] {
            assert_eq!(UserGrants::parse(text), None, "{text}");
        }
    }

    #[test]
    fn cells_have_a_name_a_uuid_and_an_address() {
        let uuid = "ce110000-0000-4000-8000-000000000001";
        let cells = CellAddresses::parse(&format!("one={uuid}@10.0.0.1:8780")).unwrap();
        let uuid: Uuid = uuid.parse().unwrap();
        assert_eq!(
            cells.0,
            [("one".to_owned(), uuid, "10.0.0.1:8780".to_owned())]
        );
        let replicas = CellAddresses::parse(&format!("one={uuid}@a:1+b:2,two={uuid}@c:3"));
        let replicas = replicas.unwrap().0;
        assert_eq!((&*replicas[0].2, &*replicas[1].2), ("a:1,b:2", "c:3"));
        for text in [
            "one",
            "one=x@h:1",
            "one=ce110000-0000-4000-8000-000000000001@h:1+",
            "=ce110000-0000-4000-8000-000000000001@h:1",
        ] {
            assert_eq!(CellAddresses::parse(text), None, "{text}");
        }
    }

    #[test]
    fn quotas_name_resources_and_limits() {
        let quotas = QuotaDefaults::parse("instances=10, class:CUSTOM_GPU=-1").unwrap();
        let gpu = Resource::Class("CUSTOM_GPU".into());
        let limits = Limits::from([(Resource::Instances, 10), (gpu, UNLIMITED)]);
        assert_eq!(quotas.0, limits);
        assert_eq!(QuotaDefaults::parse("").unwrap().0, Limits::new());
        for text in [
            "instances",
            "cpus=1",
            "cores=-2",
            "ram=x",
            "cores=99999999999",
        ] {
            assert_eq!(QuotaDefaults::parse(text), None, "{text}");
        }
    }

    #[test]
    fn lists_are_separated_by_commas() {
        assert_eq!(Vec::parse("a, b").unwrap(), ["a", "b"]);
        assert!(Vec::<String>::parse("").unwrap().is_empty());
        assert_eq!(Vec::<String>::parse("a,,b"), None);
    }
}
