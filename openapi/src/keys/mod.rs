//! Block keys from token ids: a hash chain, so that a key names its block's tokens and all tokens before them.
//!
//! ```text
//! hash 0     = SHA-256(CBOR([seed,       [token, …], extra]))
//! hash i     = SHA-256(CBOR([hash i - 1, [token, …], extra]))
//! ```
//!
//! `seed` and hashes are byte strings of 32 bytes, tokens integers, `extra` an array of what else the block's contents depend on,
//! or null. CBOR is canonical (shortest heads). With [`ChainSeed::vllm`] these are the hashes of vLLM's `sha256_cbor`. With
//! [`ChainSeed::new`] the seed is `SHA-256(CBOR(["blockgate", 1, namespace, fingerprint]))`: chains of other namespaces or
//! fingerprints share no key.
//!
//! ```
//! use std::num::NonZero;
//! use blockgate_api::keys::{ChainSeed, compute_keys};
//!
//! let seed = ChainSeed::new("tenant-a", "llama-3.1-8b/bf16/tp1");
//! let block_size = NonZero::new(4).unwrap();
//! let keys = compute_keys(&seed, &[1, 2, 3, 4, 5, 6, 7, 8, 9], block_size);
//! assert_eq!(keys.len(), 2); // full blocks alone have a key
//! assert_eq!(keys[..1], compute_keys(&seed, &[1, 2, 3, 4, 0, 0, 0, 0], block_size)[..1]);
//! ```

mod cbor;

use std::fmt;
use std::num::NonZero;
use std::str::FromStr;

use sha2::{Digest, Sha256};
use thiserror::Error;

use cbor::Writer;

/// Version of the structure that [`ChainSeed::new`] hashes.
const SEED_VERSION: u64 = 1;

/// The hash of a block and of everything before it. As text 64 hex digits, lower case: the block's key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockHash([u8; 32]);

impl BlockHash {
    /// The hash's bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// A hash computed elsewhere, as vLLM's KV events carry it.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    fn of(cbor: &Writer) -> Self {
        Self(Sha256::digest(cbor.as_bytes()).into())
    }
}

impl fmt::Display for BlockHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for BlockHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlockHash({self})")
    }
}

/// Text that is not 64 hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a block hash is 64 hex digits")]
pub struct ParseBlockHashError;

impl FromStr for BlockHash {
    type Err = ParseBlockHashError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes).map_err(|_| ParseBlockHashError)?;
        Ok(Self(bytes))
    }
}

/// What stands before the first block of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChainSeed(BlockHash);

impl ChainSeed {
    /// vLLM's seed where `PYTHONHASHSEED` is not set (since 0.32; before, it was random).
    pub const VLLM_DEFAULT_HASH_SEED: &str = "vllm-none-hash";

    /// The seed of all chains of a namespace (who shares blocks with whom) and a fingerprint (everything that must be equal for KV
    /// bytes to be reusable: model and revision, tokenizer, dtype, layout, block size, ranks).
    #[must_use]
    pub fn new(namespace: &str, fingerprint: &str) -> Self {
        let mut cbor = Writer::default();
        cbor.array(4);
        cbor.text("blockgate");
        cbor.unsigned(SEED_VERSION);
        cbor.text(namespace);
        cbor.text(fingerprint);
        Self(BlockHash::of(&cbor))
    }

    /// vLLM's own seed (`NONE_HASH`) with `--prefix-caching-hash-algo sha256_cbor`: its keys are then vLLM's block hashes. `hash_seed`
    /// is the environment's `PYTHONHASHSEED`, or [`Self::VLLM_DEFAULT_HASH_SEED`].
    #[must_use]
    pub fn vllm(hash_seed: &str) -> Self {
        let mut cbor = Writer::default();
        cbor.text(hash_seed);
        Self(BlockHash::of(&cbor))
    }

    /// The seed as it enters the first block's hash.
    #[must_use]
    pub const fn hash(&self) -> BlockHash {
        self.0
    }
}

/// What else than tokens a block's contents depend on. vLLM's are those of [`ExtraKey::lora`], [`ExtraKey::multimodal`],
/// [`ExtraKey::cache_salt`] and [`ExtraKey::prompt_embeds`], in this order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ExtraKey {
    /// A text string.
    Text(String),
    /// A number.
    Int(i64),
    /// A byte string.
    Bytes(Vec<u8>),
    /// Several of them.
    Tuple(Vec<ExtraKey>),
}

impl ExtraKey {
    /// vLLM's for a LoRA adapter, in every block.
    #[must_use]
    pub fn lora(name: &str, path: &str) -> Self {
        Self::Tuple(vec![Self::Text("lora".into()), Self::Text(name.into()), Self::Text(path.into())])
    }

    /// vLLM's for an image or the like, in every block that holds a part of it. `offset` is where it begins, counted in tokens from
    /// the start of the block: negative when it began in an earlier one.
    #[must_use]
    pub fn multimodal(identifier: &str, offset: i64) -> Self {
        Self::Tuple(vec![Self::Text("mm".into()), Self::Text(identifier.into()), Self::Int(offset)])
    }

    /// vLLM's for a request's `cache_salt`, in the first block alone.
    #[must_use]
    pub fn cache_salt(salt: &str) -> Self {
        Self::Tuple(vec![Self::Text("cache_salt".into()), Self::Text(salt.into())])
    }

    /// vLLM's for prompt embeddings, in every block: the SHA-256 of the block's part of the tensor.
    #[must_use]
    pub fn prompt_embeds(sha256: [u8; 32]) -> Self {
        Self::Tuple(vec![Self::Text("prompt_embeds".into()), Self::Bytes(sha256.into())])
    }

    fn write(&self, cbor: &mut Writer) {
        match self {
            Self::Text(text) => cbor.text(text),
            Self::Int(number) => cbor.integer(*number),
            Self::Bytes(bytes) => cbor.bytes(bytes),
            Self::Tuple(keys) => {
                cbor.array(keys.len());
                keys.iter().for_each(|key| key.write(cbor));
            }
        }
    }
}

/// The keys of a prompt's full blocks.
#[must_use]
pub fn compute_keys(seed: &ChainSeed, tokens: &[u32], block_size: NonZero<usize>) -> Vec<BlockHash> {
    Chain::new(seed, block_size).extend(tokens)
}

/// The keys of a prompt's full blocks, where `extra` tells the extra keys of each (by its position in the chain; none: empty).
#[must_use]
pub fn compute_keys_with(
    seed: &ChainSeed,
    tokens: &[u32],
    block_size: NonZero<usize>,
    extra: impl FnMut(usize) -> Vec<ExtraKey>,
) -> Vec<BlockHash> {
    Chain::new(seed, block_size).extend_with(tokens, extra)
}

/// A chain that grows, as while an engine decodes.
#[derive(Debug)]
pub struct Chain {
    block_size: NonZero<usize>,
    /// The last full block's hash; the seed before the first.
    parent: BlockHash,
    blocks: usize,
    /// Tokens of a block that is not full yet.
    tail: Vec<u32>,
    cbor: Writer,
}

impl Chain {
    /// An empty chain.
    #[must_use]
    pub fn new(seed: &ChainSeed, block_size: NonZero<usize>) -> Self {
        Self { block_size, parent: seed.hash(), blocks: 0, tail: Vec::new(), cbor: Writer::default() }
    }

    /// How many blocks are full.
    #[must_use]
    pub const fn blocks(&self) -> usize {
        self.blocks
    }

    /// Takes the next tokens in; returns the keys of the blocks that became full.
    pub fn extend(&mut self, tokens: &[u32]) -> Vec<BlockHash> {
        self.extend_with(tokens, |_| Vec::new())
    }

    /// The same, where `extra` tells the extra keys of each block that became full, by its position in the chain.
    pub fn extend_with(&mut self, tokens: &[u32], mut extra: impl FnMut(usize) -> Vec<ExtraKey>) -> Vec<BlockHash> {
        let block_size = self.block_size.get();
        let mut keys = Vec::with_capacity((self.tail.len() + tokens.len()) / block_size);
        let missing = (block_size - self.tail.len()).min(tokens.len());
        let (head, rest) = if self.tail.is_empty() { (&[][..], tokens) } else { tokens.split_at(missing) };
        self.tail.extend_from_slice(head);
        if self.tail.len() == block_size {
            let tail = std::mem::take(&mut self.tail);
            keys.push(self.push(&tail, &extra(self.blocks)));
        }
        let mut blocks = rest.chunks_exact(block_size);
        for block in &mut blocks {
            keys.push(self.push(block, &extra(self.blocks)));
        }
        self.tail.extend_from_slice(blocks.remainder());
        keys
    }

    fn push(&mut self, tokens: &[u32], extra: &[ExtraKey]) -> BlockHash {
        let cbor = &mut self.cbor;
        cbor.clear();
        cbor.array(3);
        cbor.bytes(self.parent.as_bytes());
        cbor.array(tokens.len());
        tokens.iter().for_each(|token| cbor.unsigned((*token).into()));
        if extra.is_empty() {
            cbor.null();
        } else {
            cbor.array(extra.len());
            extra.iter().for_each(|key| key.write(cbor));
        }
        self.parent = BlockHash::of(cbor);
        self.blocks += 1;
        self.parent
    }
}
