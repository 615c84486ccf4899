//! Quotas: limits, and usages of instances.

use placewright_conductor::quota::{QuotaScope, QuotaSet, Resource, Usage, UsageAmounts};

use crate::form::{Form, FormError, Reader, Writer};

row!(QuotaSet { limits });
row!(UsageAmounts {
    cores,
    ram_mb,
    classes
});

choice!(QuotaScope {
    0 Configured,
    1 Class(name),
    2 Project(name),
    3 Registered,
    4 Unified(name),
});

/// A resource is written as its name, which never changes.
impl Form for Resource {
    fn write(&self, out: &mut Writer) {
        // `Writer::text` joins two parts, and here there is one.
        out.text(&self.name(), "");
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
        Self::parse(from.text()?).ok_or(FormError::Bad("a resource"))
    }
}

/// A usage is written as its amounts, if they are known.
impl Form for Usage {
    fn write(&self, out: &mut Writer) {
        let amounts = self.amounts();
        amounts.is_some().write(out);
        if let Some(amounts) = amounts {
            amounts.write(out);
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
        Ok(match Option::<UsageAmounts>::read(from)? {
            Some(amounts) => Self::new(amounts),
            None => Self::default(),
        })
    }
}
