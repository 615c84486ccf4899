//! What is kept of a ranking with the decision that it led to. Conductors keep it as bytes, because they do not decide
//! by it.
//!
//! The bytes are a version, then a row. Each instance has such a record as long as it exists, so it is short: weighers
//! that this release knows are numbers, and raw values, which are mostly whole numbers, have variable lengths.

use placewright_types::ranking::{RankedHost, RankedWeigher, Ranking};

use crate::error::{ReadError, check_version};
use crate::form::{Form, FormError, Layout, Reader, Writer};

/// The version that this release writes.
const VERSION: u8 = 1;

/// The weighers whose names are written as numbers, from 1 on. The order never changes; new ones go to the end.
pub const KNOWN_WEIGHERS: [&str; 15] = [
    "RAMWeigher",
    "CPUWeigher",
    "DiskWeigher",
    "IoOpsWeigher",
    "MetricsWeigher",
    "ServerGroupSoftAffinityWeigher",
    "ServerGroupSoftAntiAffinityWeigher",
    "BuildFailureWeigher",
    "CrossCellWeigher",
    "PCIWeigher",
    "HypervisorVersionWeigher",
    "NumInstancesWeigher",
    "ImagePropertiesWeigher",
    "TopologyWeigher",
    "FragmentationWeigher",
];

/// The bytes of a ranking.
#[must_use]
pub fn encode(ranking: &Ranking) -> Vec<u8> {
    let mut out = Writer::new(Vec::with_capacity(256), Layout::Growing);
    out.raw(&[VERSION]);
    ranking.write(&mut out);
    out.into_bytes()
}

/// Reads a ranking.
///
/// # Errors
///
/// [`ReadError`] when the bytes are not a ranking that this release knows.
pub fn decode(bytes: &[u8]) -> Result<Ranking, ReadError> {
    let Some((&version, row)) = bytes.split_first() else {
        return Err(ReadError::Damaged("it is empty".into()));
    };
    check_version(version, VERSION)?;
    let mut from = Reader::new(row, Layout::Growing);
    let ranking = Ranking::read(&mut from)?;
    from.finish()?;
    Ok(ranking)
}

row!(Ranking {
    sequence,
    round,
    siblings,
    known_hosts,
    feasible,
    ranked,
    named,
    excluded,
    avoided_cells,
    is_from_fallback,
    weighers,
    hosts,
    lost_hosts,
    last_refusal,
});

/// The number of the weigher, or 0 and its name; then the multiplier and the two ends of the range.
impl Form for RankedWeigher {
    fn write(&self, out: &mut Writer) {
        out.row(|out| {
            let position = KNOWN_WEIGHERS.iter().position(|name| *name == self.name);
            match position {
                Some(index) => out.number(index as u64 + 1),
                None => {
                    out.number(0);
                    // `Writer::text` joins two parts, and here there is one.
                    out.text(&self.name, "");
                }
            }
            write_value(self.multiplier, out);
            write_value(self.low, out);
            write_value(self.high, out);
        });
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
        from.row(|from| {
            let name = match from.number()? {
                0 => from.text()?.to_owned(),
                number => {
                    let index = usize::try_from(number - 1).unwrap_or(usize::MAX);
                    match KNOWN_WEIGHERS.get(index) {
                        Some(name) => (*name).to_owned(),
                        // A later release has this weigher. Its values can be shown without its name.
                        None => format!("weigher {number}"),
                    }
                }
            };
            Ok(Self {
                name,
                multiplier: read_value(from)?,
                low: read_value(from)?,
                high: read_value(from)?,
            })
        })
    }
}

impl Form for RankedHost {
    fn write(&self, out: &mut Writer) {
        out.row(|out| {
            self.host.write(out);
            for values in [&self.raw_values, &self.multipliers] {
                out.length(values.len());
                values.iter().for_each(|value| write_value(*value, out));
            }
        });
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
        from.row(|from| {
            Ok(Self {
                host: Form::read(from)?,
                raw_values: read_values(from)?,
                multipliers: read_values(from)?,
            })
        })
    }
}

/// A whole number is written as twice its zigzag encoding, which is even. Any other value is written as the number 1
/// and its eight bytes.
fn write_value(value: f64, out: &mut Writer) {
    // Conversion saturates, so what does not fit is not equal afterwards.
    let whole = value as i64;
    let zigzag = ((whole << 1) ^ (whole >> 63)).cast_unsigned();
    if (whole as f64).to_bits() == value.to_bits() && zigzag <= u64::MAX >> 1 {
        out.number(zigzag << 1);
    } else {
        out.number(1);
        value.write(out);
    }
}

fn read_value(from: &mut Reader<'_>) -> Result<f64, FormError> {
    match from.number()? {
        1 => f64::read(from),
        number if number & 1 == 0 => {
            let zigzag = number >> 1;
            let whole = (zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed();
            Ok(whole as f64)
        }
        _ => Err(FormError::Bad("a raw value")),
    }
}

fn read_values(from: &mut Reader<'_>) -> Result<Vec<f64>, FormError> {
    let count = from.length()?;
    // The claimed count is not trusted: each value takes a byte at least.
    let mut values = Vec::with_capacity(count.min(from.remaining()));
    for _ in 0..count {
        values.push(read_value(from)?);
    }
    Ok(values)
}
