//! What a file holds: the object's bytes, then what is known of it, then a footer that finds both.
//!
//! ```text
//! payload | metadata, JSON | payload length u64 | metadata length u32 | format u32 = 1 | checksum u64 | "BLKGATE\n"
//! ```
//! Numbers are little-endian; the checksum is CRC64NVME over the metadata and the three numbers before it. One rename
//! publishes both, and any tool reads the payload: `head -c $((size - …))`, or simply the file's beginning.
//!
//! A file without a sound footer is not an object that was stored here: foreign, cut short, or damaged. It is never
//! served, it is listed so that it can be found, and it can be overwritten and deleted. So is a file that was moved to where
//! another key's would be.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use blockgate_block::{Attributes, Crc64, ObjectInfo};
use rustix::buffer::spare_capacity;
use rustix::fs::FileType;
use serde::{Deserialize, Serialize};

use super::dir::{Dir, found};

const MAGIC: [u8; 8] = *b"BLKGATE\n";
const FORMAT: u32 = 1;
const FOOTER_BYTES: usize = 32;

/// The longest metadata that is written and read: S3 allows 2 KiB of user metadata and 10 tags of 384 characters.
pub(super) const META_BYTES_MAX: usize = 256 << 10;

/// Bytes read from a file's end at first: most metadata fits.
const TAIL_BYTES: u64 = 4096;

/// The name of one version of one object, never used again: 128 random bits in hex.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(super) struct Version(String);

impl Version {
    /// A new one.
    pub(super) fn random() -> io::Result<Self> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
        Ok(Self(hex::encode(bytes)))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Version {
    type Error = &'static str;

    /// It becomes a file name, so nothing but 32 hex digits is one.
    fn try_from(text: String) -> Result<Self, Self::Error> {
        let ok = text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if ok { Ok(Self(text)) } else { Err("not a version") }
    }
}

impl From<Version> for String {
    fn from(version: Version) -> Self {
        version.0
    }
}

/// What is kept with an object.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Meta {
    /// The version that this file is.
    pub(super) version: Version,
    /// ETag without quotes.
    pub(super) etag: String,
    /// When it was stored, by the store's clock, in milliseconds since 1970.
    pub(super) stored_ms: u64,
    /// Checksum of the payload, in hex, where it was computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) crc64nvme: Option<String>,
    /// Number of parts that it was made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) parts: Option<u32>,
    /// The multipart upload that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) upload: Option<Version>,
    /// The key. Files without it, of an earlier version, are believed to lie where they belong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) key: Option<String>,
    /// Of an unfinished upload: whether its parts' ETags are MD5s.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) part_md5: bool,
    /// The client's attributes.
    #[serde(default, with = "AttributesForm")]
    pub(super) attributes: Attributes,
    /// The client's tags, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) tags: Vec<(String, String)>,
}

/// [`Attributes`] as they are written.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Attributes")]
struct AttributesForm {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content_encoding: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content_language: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content_disposition: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cache_control: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    user: BTreeMap<String, String>,
}

impl Meta {
    pub(super) fn stored_at(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.stored_ms)
    }

    pub(super) fn crc64(&self) -> Option<Crc64> {
        self.crc64nvme.as_deref().and_then(|text| text.parse().ok())
    }

    /// What follows the payload in the file.
    pub(super) fn trailer(&self, payload_len: u64) -> io::Result<Vec<u8>> {
        let mut bytes = serde_json::to_vec(self)?;
        if bytes.len() > META_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the metadata is too long"));
        }
        // Fits: META_BYTES_MAX does.
        let meta_len = bytes.len() as u32;
        bytes.extend_from_slice(&payload_len.to_le_bytes());
        bytes.extend_from_slice(&meta_len.to_le_bytes());
        bytes.extend_from_slice(&FORMAT.to_le_bytes());
        let checksum = Crc64::of(&bytes);
        bytes.extend_from_slice(&checksum.to_u64().to_le_bytes());
        bytes.extend_from_slice(&MAGIC);
        Ok(bytes)
    }
}

/// A file at a key's path.
#[allow(clippy::large_enum_variant, reason = "there is one at a time, on the stack")]
#[derive(Debug)]
pub(super) enum Current {
    /// An object.
    Sound(Object),
    /// Something else.
    Damaged(Damaged),
}

/// An object, open for reading: its bytes stay what they are, whatever happens at its path.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) file: File,
    pub(super) len_bytes: u64,
    pub(super) meta: Meta,
}

/// A file that is not an object.
#[derive(Debug)]
pub(super) struct Damaged {
    /// What tells it from others that were or will be at its path.
    pub(super) id: String,
    pub(super) why: &'static str,
    pub(super) len_bytes: u64,
    pub(super) modified_at: SystemTime,
}

impl Current {
    /// What is at `name`; `None` where nothing is.
    pub(super) fn open(dir: &Dir, name: &str) -> io::Result<Option<Self>> {
        let file = match dir.file(name) {
            Ok(file) => file,
            Err(error) => {
                return match found(dir.stat(name))? {
                    Some(stat) if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile => {
                        Ok(Some(Self::Damaged(Damaged::of(&stat, "not a regular file"))))
                    }
                    Some(_) if error.kind() != io::ErrorKind::NotFound => Err(error),
                    _ => Ok(None),
                };
            }
        };
        let stat = rustix::fs::fstat(&file)?;
        let opened = if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
            read_trailer(&file, stat.st_size as u64)?
        } else {
            Err("not a regular file")
        };
        Ok(Some(match opened {
            Ok((len_bytes, meta)) => Self::Sound(Object { file, len_bytes, meta }),
            Err(why) => Self::Damaged(Damaged::of(&stat, why)),
        }))
    }

    /// What tells this file from all others that were or will be at its path; a safe file name.
    pub(super) fn id(&self) -> &str {
        match self {
            Self::Sound(object) => object.meta.version.as_str(),
            Self::Damaged(damaged) => &damaged.id,
        }
    }

    pub(super) fn etag(&self) -> &str {
        match self {
            Self::Sound(object) => &object.meta.etag,
            Self::Damaged(damaged) => &damaged.id,
        }
    }

    pub(super) fn stored_at(&self) -> SystemTime {
        match self {
            Self::Sound(object) => object.meta.stored_at(),
            Self::Damaged(damaged) => damaged.modified_at,
        }
    }

    pub(super) fn len_bytes(&self) -> u64 {
        match self {
            Self::Sound(object) => object.len_bytes,
            Self::Damaged(damaged) => damaged.len_bytes,
        }
    }
}

impl Damaged {
    fn of(stat: &rustix::fs::Stat, why: &'static str) -> Self {
        let modified_at = mtime(stat);
        let nanos = modified_at.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let id = format!("foreign-{:x}-{nanos:x}-{:x}", stat.st_ino, stat.st_size);
        Self { id, why, len_bytes: stat.st_size as u64, modified_at }
    }
}

impl Object {
    /// The object as upstreams describe it.
    pub(super) fn info(&self) -> ObjectInfo {
        let Meta { etag, attributes, tags, parts, .. } = &self.meta;
        let mut info =
            ObjectInfo::from_upstream(self.len_bytes, etag.clone(), self.meta.stored_at(), attributes.clone());
        info.tag_count = tags.len() as u32;
        info.parts_count = *parts;
        info
    }
}

/// When a file was last written, by the file system's clock.
pub(super) fn mtime(stat: &rustix::fs::Stat) -> SystemTime {
    time(stat.st_mtime, stat.st_mtime_nsec)
}

/// When a file was last written, linked or renamed, by the file system's clock.
pub(super) fn ctime(stat: &rustix::fs::Stat) -> SystemTime {
    time(stat.st_ctime, stat.st_ctime_nsec)
}

fn time(seconds: i64, nanos: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap_or(0)) + Duration::from_nanos(nanos)
}

/// Reads up to `len` bytes at `offset`; fewer only at the file's end.
pub(super) fn read_at(file: &File, offset: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(len);
    while bytes.len() < len {
        let at = offset + bytes.len() as u64;
        match rustix::io::pread(file, spare_capacity(&mut bytes), at) {
            Ok(0) => break,
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    // A vector may have room for more than was asked.
    bytes.truncate(len);
    Ok(bytes)
}

/// Finds the payload's length and the metadata, or says why there are none.
fn read_trailer(file: &File, file_len: u64) -> io::Result<Result<(u64, Meta), &'static str>> {
    let tail = read_at(file, file_len.saturating_sub(TAIL_BYTES), file_len.min(TAIL_BYTES) as usize)?;
    let (payload_len, meta_len) = match footer(&tail, file_len) {
        Ok(lengths) => lengths,
        Err(why) => return Ok(Err(why)),
    };
    let trailer_len = meta_len + FOOTER_BYTES;
    if trailer_len <= tail.len() {
        return Ok(meta(&tail[tail.len() - trailer_len..]).map(|meta| (payload_len, meta)));
    }
    Ok(meta(&read_at(file, payload_len, trailer_len)?).map(|meta| (payload_len, meta)))
}

/// The lengths of payload and metadata.
fn footer(tail: &[u8], file_len: u64) -> Result<(u64, usize), &'static str> {
    let footer: &[u8; FOOTER_BYTES] = tail.last_chunk().ok_or("no footer: not stored here, or cut short")?;
    if footer[24..] != MAGIC {
        return Err("no footer: not stored here, or cut short");
    }
    let payload_len = u64::from_le_bytes(array(footer, 0));
    let meta_len = u32::from_le_bytes(array(footer, 8)) as usize;
    if u32::from_le_bytes(array(footer, 12)) != FORMAT {
        return Err("a format that this version does not know");
    }
    let sum = payload_len.checked_add(meta_len as u64 + FOOTER_BYTES as u64);
    if meta_len > META_BYTES_MAX || sum != Some(file_len) {
        return Err("the footer's lengths are not the file's");
    }
    Ok((payload_len, meta_len))
}

/// The metadata of a whole trailer.
fn meta(trailer: &[u8]) -> Result<Meta, &'static str> {
    let (summed, rest) = trailer.split_at_checked(trailer.len().saturating_sub(16)).ok_or("the footer is damaged")?;
    if rest.len() != 16 || Crc64::of(summed).to_u64() != u64::from_le_bytes(array(rest, 0)) {
        return Err("the metadata does not have its checksum");
    }
    serde_json::from_slice(&summed[..summed.len() - 16]).map_err(|_| "the metadata can't be read")
}

/// `N` bytes at a position that the caller knows to be there; zeros where it isn't.
fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..at + N).and_then(|slice| slice.try_into().ok()).unwrap_or([0; N])
}
