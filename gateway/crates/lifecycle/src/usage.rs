//! Bytes by bucket and tenant, told by each gateway for itself.
