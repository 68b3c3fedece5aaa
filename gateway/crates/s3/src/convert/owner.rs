//! Who owns everything: blockgate knows no accounts, but S3's answers name one.

use s3s::dto::{Grant, Grantee, Initiator, Owner, Permission, Type};

/// The account that owns every bucket and object.
pub(crate) const OWNER_ID: &str = "blockgate";

/// The owner in listings and ACLs.
pub(crate) fn owner() -> Owner {
    Owner { display_name: Some(OWNER_ID.to_owned()), id: Some(OWNER_ID.to_owned()) }
}

/// The initiator of uploads.
pub(crate) fn initiator() -> Initiator {
    Initiator { display_name: Some(OWNER_ID.to_owned()), id: Some(OWNER_ID.to_owned()) }
}

/// The grants of the canned ACL `private`.
pub(crate) fn private_grants() -> Vec<Grant> {
    let grantee = Grantee {
        display_name: Some(OWNER_ID.to_owned()),
        email_address: None,
        id: Some(OWNER_ID.to_owned()),
        type_: Type::from_static(Type::CANONICAL_USER),
        uri: None,
    };
    vec![Grant { grantee: Some(grantee), permission: Some(Permission::from_static(Permission::FULL_CONTROL)) }]
}
