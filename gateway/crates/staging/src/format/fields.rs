//! Fields one after another, little-endian.

use blockgate_block::Crc64;

use super::Flaw;

/// Reads fields, in bounds.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn bytes(&mut self, len: usize) -> Result<&'a [u8], Flaw> {
        let (head, tail) = self.0.split_at_checked(len).ok_or(Flaw::Bounds)?;
        self.0 = tail;
        Ok(head)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Flaw> {
        let (head, tail) = self.0.split_first_chunk().ok_or(Flaw::Bounds)?;
        self.0 = tail;
        Ok(*head)
    }

    pub(super) fn u8(&mut self) -> Result<u8, Flaw> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self) -> Result<u16, Flaw> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Flaw> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, Flaw> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn u128(&mut self) -> Result<u128, Flaw> {
        self.array().map(u128::from_le_bytes)
    }

    pub(super) fn text(&mut self, len: usize) -> Result<&'a str, Flaw> {
        std::str::from_utf8(self.bytes(len)?).map_err(|_| Flaw::Bounds)
    }
}

/// Writes `fields` from the start of `out`. What follows is left as it is.
///
/// # Panics
/// Where they are longer than `out`: a mistake of the caller's.
pub(super) fn write(out: &mut [u8], fields: &[&[u8]]) {
    let mut at = 0;
    for field in fields {
        out[at..at + field.len()].copy_from_slice(field);
        at += field.len();
    }
}

/// Puts the checksum of everything before it into the last 8 bytes.
pub(super) fn seal(bytes: &mut [u8]) {
    if let Some((body, crc)) = bytes.split_last_chunk_mut::<8>() {
        *crc = Crc64::of(body).to_u64().to_le_bytes();
    }
}

/// Whether [`seal`] was the last to write there. The bytes without the checksum.
pub(super) fn unseal(bytes: &[u8]) -> Result<&[u8], Flaw> {
    let (body, crc) = bytes.split_last_chunk::<8>().ok_or(Flaw::Bounds)?;
    if Crc64::of(body).to_u64() == u64::from_le_bytes(*crc) { Ok(body) } else { Err(Flaw::Checksum) }
}
