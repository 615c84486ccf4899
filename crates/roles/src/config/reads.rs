//! The options that each command reads.
//!
//! A flag that a command does not read is an error, because the user expects it to have an effect.
//! A key of the configuration file or an environment variable that the command does not read is no error,
//! since one file is often for all commands.

use crate::options::{OPTIONS, OptionSpec, SECTIONS};

/// The options that a command reads, in the order of its help.
#[derive(Debug)]
pub struct CommandOptions {
    /// The command as the user writes it, such as `up`.
    pub command: &'static str,
    /// The sections that the command reads, in the order of its help, each with the keys that it reads of the section.
    sections: &'static [(&'static str, KeySet)],
    /// Whether the command also reads all other sections, except [`SINGLE_COMMAND_SECTIONS`].
    reads_other_sections: bool,
}

/// Sections that only one command reads.
const SINGLE_COMMAND_SECTIONS: [&str; 2] = ["cell", "agent"];

/// The keys that a command reads of a section: all of them, only those in a list, or all but those in a list.
#[derive(Debug, Clone, Copy)]
enum KeySet {
    All,
    Only(&'static [&'static str]),
    AllBut(&'static [&'static str]),
}

impl KeySet {
    fn contains(self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.contains(&name),
            Self::AllBut(names) => !names.contains(&name),
        }
    }
}

impl CommandOptions {
    /// The keys that the command reads of a section; `None` if it does not read the section.
    fn keys(&self, section: &str) -> Option<KeySet> {
        let mut sections = self.sections.iter();
        let listed = sections.find(|(name, _)| *name == section);
        let is_other_section =
            self.reads_other_sections && !SINGLE_COMMAND_SECTIONS.contains(&section);
        listed
            .map(|(_, keys)| *keys)
            .or(is_other_section.then_some(KeySet::All))
    }

    /// Whether the command reads an option.
    pub fn reads(&self, spec: &OptionSpec) -> bool {
        self.keys(spec.section)
            .is_some_and(|keys| keys.contains(spec.name))
    }

    /// The sections that the command reads, in the order of its help: those in `sections`, then all others,
    /// and `log` last.
    fn sections(&self) -> Vec<&'static str> {
        let listed = self.sections.iter().map(|(section, _)| *section);
        let all_sections = SECTIONS.iter().map(|section| section.name);
        let mut sections: Vec<&str> = Vec::new();
        for section in listed.chain(all_sections) {
            if section != "log" && !sections.contains(&section) && self.keys(section).is_some() {
                sections.push(section);
            }
        }
        sections.push("log");
        sections
    }
}

/// The commands that read an option, as a list for an error message.
pub(crate) fn readers_of(spec: &OptionSpec) -> String {
    let readers = [&CONTROL, &UP, &CELL, &AGENT].into_iter();
    let names: Vec<String> = readers
        .filter(|reader| reader.reads(spec))
        .map(|reader| format!("`placewright {}`", reader.command))
        .collect();
    names.join(", ")
}

/// A marker type for the flags of a command, by which the flags know the command that reads them.
pub trait ReadsOptions {
    /// The command; `None` if all options are read.
    const READER: Option<&'static CommandOptions>;
}

macro_rules! markers {
    ($($Marker:ident = $reader:expr;)+) => {
        $(
            /// The marker of the flags of one command.
            #[derive(Debug, Clone, Copy)]
            pub struct $Marker;

            impl ReadsOptions for $Marker {
                const READER: Option<&'static CommandOptions> = $reader;
            }
        )+
    };
}

markers! {
    AllOptions = None;
    ReadByUp = Some(&UP);
    ReadByControl = Some(&CONTROL);
    ReadByCell = Some(&CELL);
    ReadByAgent = Some(&AGENT);
}

static UP: CommandOptions = CommandOptions {
    command: "up",
    sections: &[
        ("placement", KeySet::All),
        ("compute", KeySet::All),
        ("scheduler", KeySet::All),
        ("image", KeySet::All),
        ("network", KeySet::All),
        ("ui", KeySet::All),
        ("control", KeySet::AllBut(&["replica_address"])),
    ],
    reads_other_sections: true,
};

static CONTROL: CommandOptions = CommandOptions {
    command: "control",
    sections: &[
        ("placement", KeySet::All),
        ("scheduler", KeySet::All),
        ("compute", KeySet::All),
        ("image", KeySet::All),
        ("network", KeySet::All),
        ("ui", KeySet::All),
    ],
    reads_other_sections: true,
};

static CELL: CommandOptions = CommandOptions {
    command: "cell",
    sections: &[
        ("cell", KeySet::All),
        ("store", KeySet::AllBut(&["path"])),
        ("secrets", KeySet::All),
        (
            "tls",
            KeySet::Only(&[
                "handshakes_max",
                "handshakes_per_peer_max",
                "handshake_timeout_ms",
                "handshake_threads",
            ]),
        ),
        ("auth", KeySet::Only(&["i_know_this_is_open"])),
        ("audit", KeySet::All),
        ("traces", KeySet::All),
        ("log", KeySet::All),
    ],
    reads_other_sections: false,
};

static AGENT: CommandOptions = CommandOptions {
    command: "agent",
    sections: &[
        ("agent", KeySet::All),
        (
            "keystone",
            KeySet::Only(&[
                "auth_url",
                "username",
                "password",
                "password_file",
                "user_domain_name",
                "project_name",
                "project_domain_name",
                "cafile",
                "connect_timeout_ms",
                "request_timeout_ms",
            ]),
        ),
        ("secrets", KeySet::Only(&["core_dumps"])),
        ("traces", KeySet::All),
        ("log", KeySet::All),
    ],
    reads_other_sections: false,
};

/// The indexes in [`OPTIONS`] of the options that a command reads, in the order of its help. Without a command, the
/// indexes of all options.
pub(super) fn indexes_in_help_order(reader: Option<&'static CommandOptions>) -> Vec<usize> {
    let sections = match reader {
        Some(reader) => reader.sections(),
        None => SECTIONS.iter().map(|section| section.name).collect(),
    };
    let is_read = |spec: &OptionSpec| reader.is_none_or(|reader| reader.reads(spec));
    let mut indexes = Vec::new();
    for section in sections {
        let all_options = OPTIONS.iter().enumerate();
        let of_section = all_options.filter(|(_, spec)| spec.section == section && is_read(spec));
        indexes.extend(of_section.map(|(index, _)| index));
    }
    indexes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_is_read_by_a_command_and_every_name_is_an_option() {
        for spec in OPTIONS {
            assert!(!readers_of(spec).is_empty(), "{}", spec.key());
        }
        for reader in [&UP, &CONTROL, &CELL, &AGENT] {
            for (section, keys) in reader.sections {
                let names = match keys {
                    KeySet::All => &[],
                    KeySet::Only(names) | KeySet::AllBut(names) => *names,
                };
                assert!(
                    SECTIONS
                        .iter()
                        .any(|section_spec| section_spec.name == *section)
                );
                for name in names {
                    let key = format!("{section}.{name}");
                    assert!(crate::options::find(&key).is_some(), "{key}");
                }
            }
        }
        assert_eq!(indexes_in_help_order(None).len(), OPTIONS.len());
    }
}
