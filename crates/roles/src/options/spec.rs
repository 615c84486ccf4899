//! The description of an option, and the macro that makes the options from their table.

use super::kinds::ValueSyntax;

/// The definition of an option, independent of any value.
#[derive(Debug)]
pub struct OptionSpec {
    /// The section of the configuration file that has the option.
    pub section: &'static str,
    /// The key in that section.
    pub name: &'static str,
    /// Its description, in whole sentences, for the help and the documentation.
    pub help: &'static str,
    /// The default as text; empty means "not set".
    pub default: &'static str,
    /// The unit of the value, if it is a number that has one; otherwise empty.
    pub unit: &'static str,
    /// Whether the value is a secret. A secret is never shown, and its option has no flag, because every user
    /// of a machine can read command lines.
    pub secret: bool,
    /// Describes the allowed values.
    pub describe_allowed: fn() -> String,
    /// Whether a text is an allowed value.
    pub accepts: fn(&str) -> bool,
    /// The syntax of the value in the configuration file.
    pub syntax: ValueSyntax,
}

impl OptionSpec {
    /// `section.name`, the key that messages show.
    pub fn key(&self) -> String {
        format!("{}.{}", self.section, self.name)
    }

    /// The environment variable that sets the option.
    pub fn variable(&self) -> String {
        format!("PLACEWRIGHT_{}_{}", self.section, self.name).to_uppercase()
    }

    /// The flag that sets the option, without the leading dashes.
    pub fn flag(&self) -> String {
        if self.name == "i_know_this_is_open" {
            // Typed without the name of a section, this flag is a sentence.
            return "i-know-this-is-open".to_owned();
        }
        format!("{}-{}", self.section, self.name).replace('_', "-")
    }
}

/// A section of the configuration file.
#[derive(Debug)]
pub struct SectionSpec {
    /// The name of the section.
    pub name: &'static str,
    /// The description of the section.
    pub help: &'static str,
}

macro_rules! options {
    ($(
        $(#[doc = $section_help:literal])+
        $section:ident: $Section:ident {
            $(
                $(#[doc = $help:literal])+
                $(#[unit($unit:literal)])?
                $(#[secret($secret:literal)])?
                $name:ident: $kind:ty = $default:literal;
            )+
        }
    )+) => {
        /// The value of each option, by section.
        #[derive(Debug, Clone)]
        pub struct Options {
            $($(#[doc = $section_help])+ pub $section: $Section,)+
        }

        $(
            $(#[doc = $section_help])+
            #[derive(Debug, Clone)]
            pub struct $Section {
                $($(#[doc = $help])+ pub $name: $kind,)+
            }
        )+

        /// The sections in the order of the documentation.
        pub static SECTIONS: &[SectionSpec] = &[
            $(SectionSpec { name: stringify!($section), help: concat!($($section_help),+).trim_ascii() },)+
        ];

        /// All options in the order of the documentation.
        pub static OPTIONS: &[OptionSpec] = &[
            $($(OptionSpec {
                section: stringify!($section),
                name: stringify!($name),
                help: concat!($($help),+).trim_ascii(),
                default: $default,
                unit: concat!("" $(, $unit)?),
                secret: false $(|| $secret)?,
                describe_allowed: <$kind as OptionType>::describe_allowed,
                accepts: |text| <$kind as OptionType>::parse(text).is_some(),
                syntax: <$kind as OptionType>::SYNTAX,
            },)+)+
        ];

        impl Options {
            /// Parses the options from one text for each entry of [`OPTIONS`].
            ///
            /// # Errors
            ///
            /// The index of the first option whose text is not an allowed value.
            #[allow(unused_assignments, reason = "nothing reads the index after the last increment")]
            pub fn from_texts(texts: &[&str]) -> Result<Self, usize> {
                let mut index = 0;
                $(
                    let $section = $Section {
                        $($name: {
                            let value = texts.get(index).and_then(|text| OptionType::parse(text));
                            let value = value.ok_or(index)?;
                            index += 1;
                            value
                        },)+
                    };
                )+
                Ok(Self { $($section,)+ })
            }
        }
    };
}

pub(super) use options;
