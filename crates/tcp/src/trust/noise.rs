//! `Noise_NNpsk0_25519_AESGCM_SHA256` by `snow`, every primitive of it by `ring`.
//!
//! `snow` takes cipher, hash and random numbers from `ring` by itself and has its own wrapper for curve arithmetic
//! of another crate. `ring` computes X25519 too, and the pattern uses each ephemeral key for one agreement only,
//! which is what `ring` permits; so the agreement here saves a crate and several microseconds.

use std::sync::Mutex;

use ring::agreement::{EphemeralPrivateKey, UnparsedPublicKey, X25519, agree_ephemeral};
use ring::rand::SystemRandom;
use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::{CryptoResolver, RingResolver};
use snow::types::{Cipher, Dh, Hash, Random};
use snow::{Builder, HandshakeState};

const PATTERN: &str = "Noise_NNpsk0_25519_AESGCM_SHA256";

/// One side of a Noise handshake. `prologue` is bound into it: both sides must have seen the same.
pub fn side(initiator: bool, psk: &[u8; 32], prologue: &[u8]) -> Result<HandshakeState, snow::Error> {
    let builder = Builder::with_resolver(PATTERN.parse()?, Box::new(ByRing))
        .psk(0, psk)?
        .prologue(prologue)?;
    if initiator {
        builder.build_initiator()
    } else {
        builder.build_responder()
    }
}

struct ByRing;

impl CryptoResolver for ByRing {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        RingResolver.resolve_rng()
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        match choice {
            DHChoice::Curve25519 => Some(Box::new(Agreement {
                private: Mutex::new(None),
                public: [0; 32],
            })),
            _ => None,
        }
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        RingResolver.resolve_hash(choice)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        RingResolver.resolve_cipher(choice)
    }
}

/// An ephemeral key that agrees once. The lock is there because `snow` asks for `Sync`; nobody contends for it.
struct Agreement {
    private: Mutex<Option<EphemeralPrivateKey>>,
    public: [u8; 32],
}

impl Dh for Agreement {
    fn name(&self) -> &'static str {
        "25519"
    }

    fn pub_len(&self) -> usize {
        32
    }

    fn priv_len(&self) -> usize {
        32
    }

    /// Never called: the pattern has no static keys, and `ring` makes ephemeral ones itself.
    fn set(&mut self, _: &[u8]) {}

    fn generate(&mut self, _: &mut dyn Random) -> Result<(), snow::Error> {
        let random = SystemRandom::new();
        let private = EphemeralPrivateKey::generate(&X25519, &random).map_err(|_| snow::Error::Rng)?;
        let public = private.compute_public_key().map_err(|_| snow::Error::Dh)?;
        self.public.copy_from_slice(public.as_ref());
        self.private = Mutex::new(Some(private));
        Ok(())
    }

    fn pubkey(&self) -> &[u8] {
        &self.public
    }

    /// `ring` does not show private keys, and nobody asks.
    fn privkey(&self) -> &[u8] {
        &[]
    }

    fn dh(&self, theirs: &[u8], out: &mut [u8]) -> Result<(), snow::Error> {
        let theirs = theirs.get(..32).ok_or(snow::Error::Dh)?;
        let private = self.private.lock().map_err(|_| snow::Error::Dh)?.take();
        agree_ephemeral(
            private.ok_or(snow::Error::Dh)?,
            &UnparsedPublicKey::new(&X25519, theirs),
            |shared| out[..32].copy_from_slice(shared),
        )
        .map_err(|_| snow::Error::Dh)
    }
}
