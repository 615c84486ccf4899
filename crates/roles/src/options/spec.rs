//! The description of an option, and the macros that make the options from their tables.

use super::kinds::ValueSyntax;

/// The definition of an option, independent of any value.
#[derive(Debug, Clone, Copy)]
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

/// Makes the options of one section: a struct with a field for each option, and the [`OptionSpec`] of each. An entry
/// `name: Type = "default";` is one option, and its doc comment is the text of the help.
macro_rules! section {
    (
        $(#[doc = $section_help:literal])+
        $section:ident: $Section:ident {
            $(
                $(#[doc = $help:literal])+
                $(#[unit($unit:literal)])?
                $(#[secret($secret:literal)])?
                $name:ident: $kind:ty = $default:literal;
            )+
        }
    ) => {
        $(#[doc = $section_help])+
        #[derive(Debug, Clone)]
        pub struct $Section {
            $($(#[doc = $help])+ pub $name: $kind,)+
        }

        impl $Section {
            /// The section without its options.
            pub(super) const SECTION: $crate::options::spec::SectionSpec = $crate::options::spec::SectionSpec {
                name: stringify!($section),
                help: concat!($($section_help),+).trim_ascii(),
            };

            /// The options of the section in the order of the documentation.
            pub(super) const OPTIONS: &[$crate::options::spec::OptionSpec] = &[
                $($crate::options::spec::OptionSpec {
                    section: stringify!($section),
                    name: stringify!($name),
                    help: concat!($($help),+).trim_ascii(),
                    default: $default,
                    unit: concat!("" $(, $unit)?),
                    secret: false $(|| $secret)?,
                    describe_allowed: <$kind as $crate::options::kinds::OptionType>::describe_allowed,
                    accepts: |text| <$kind as $crate::options::kinds::OptionType>::parse(text).is_some(),
                    syntax: <$kind as $crate::options::kinds::OptionType>::SYNTAX,
                },)+
            ];

            /// Parses the options of the section from the texts from `index` on, and moves `index` behind them. The
            /// error is the index of the first option whose text is not an allowed value.
            pub(super) fn from_texts(texts: &[&str], index: &mut usize) -> Result<Self, usize> {
                Ok(Self {
                    $($name: {
                        let text = texts.get(*index);
                        let value = text.and_then(|text| $crate::options::kinds::OptionType::parse(text));
                        let value = value.ok_or(*index)?;
                        *index += 1;
                        value
                    },)+
                })
            }
        }
    };
}

/// Makes the struct `Options` of all sections, and the lists of all sections and options.
macro_rules! options {
    ($($section:ident: $Section:ident;)+) => {
        /// The value of each option, by section.
        #[derive(Debug, Clone)]
        pub struct Options {
            $(#[doc = concat!("The values of the section `", stringify!($section), "`.")] pub $section: $Section,)+
        }

        /// The sections in the order of the documentation.
        pub static SECTIONS: &[SectionSpec] = &[$($Section::SECTION),+];

        static ALL: [OptionSpec; 0 $(+ $Section::OPTIONS.len())+] =
            $crate::options::spec::concatenate(&[$($Section::OPTIONS),+]);

        /// All options in the order of the documentation.
        pub static OPTIONS: &[OptionSpec] = &ALL;

        impl Options {
            /// Parses the options from one text for each entry of [`OPTIONS`].
            ///
            /// # Errors
            ///
            /// The index of the first option whose text is not an allowed value.
            pub fn from_texts(texts: &[&str]) -> Result<Self, usize> {
                let mut index = 0;
                Ok(Self { $($section: $Section::from_texts(texts, &mut index)?,)+ })
            }
        }
    };
}

/// The options of all sections, one section after the other.
pub(super) const fn concatenate<const COUNT: usize>(
    sections: &[&[OptionSpec]],
) -> [OptionSpec; COUNT] {
    let mut all = [sections[0][0]; COUNT];
    let (mut section, mut count) = (0, 0);
    while section < sections.len() {
        let mut index = 0;
        while index < sections[section].len() {
            all[count] = sections[section][index];
            count += 1;
            index += 1;
        }
        section += 1;
    }
    all
}

pub(super) use {options, section};
