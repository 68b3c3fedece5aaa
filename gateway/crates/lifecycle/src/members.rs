//! Which gateways there are, and what is whose.
