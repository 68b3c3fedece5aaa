//! The mapping against a model, on a store that keeps only what every store keeps.

use std::collections::{BTreeMap, BTreeSet};
use std::time::UNIX_EPOCH;

use bytes::Bytes;
use parking_lot::Mutex;
use proptest::prelude::*;

use super::name::is_ordinary;
use super::*;
use crate::{ListEntry, PartInfo, UploadInfo, byte_stream_of};
use blockgate_block::RESERVED_PREFIX;

/// A store that insists on names that every store keeps, and returns small pages.
#[derive(Default)]
struct Plain {
    objects: Mutex<BTreeMap<String, (Attributes, Bytes)>>,
    uploads: Mutex<BTreeMap<(String, String), Attributes>>,
    lists: Mutex<usize>,
}

const PAGE: usize = 3;

impl Plain {
    fn insert(&self, name: &str, attributes: Attributes, bytes: Bytes) {
        assert!(is_ordinary(name) && name.len() <= 1024, "{name:?}");
        self.objects.lock().insert(name.to_owned(), (attributes, bytes));
    }

    fn object(&self, name: &str) -> Result<(ObjectInfo, Bytes)> {
        let (attributes, bytes) = self.objects.lock().get(name).cloned().ok_or(UpstreamError::NoSuchKey)?;
        Ok((ObjectInfo::from_upstream(bytes.len() as u64, "e".to_owned(), UNIX_EPOCH, attributes), bytes))
    }
}

/// What a listing of these names must show: the definition, without any cleverness.
fn listed<'a>(names: impl Iterator<Item = &'a String>, request: &ListRequest) -> ListPage {
    let fold = |name: &String| {
        let rest = name.strip_prefix(&request.prefix)?;
        let at = request.delimiter.as_ref().and_then(|delimiter| Some(rest.find(delimiter)? + delimiter.len()));
        Some((name[..request.prefix.len() + at.unwrap_or(rest.len())].to_owned(), at.is_some()))
    };
    let all: BTreeSet<(String, bool)> = names.filter_map(fold).collect();
    let after = all.into_iter().filter(|(name, _)| request.start_after.as_ref().is_none_or(|after| name > after));
    let mut entries: Vec<_> = after
        .map(|(key, common)| match common {
            true => ListEntry::CommonPrefix(key),
            false => ListEntry::Object { key, size_bytes: 1, etag: "e".to_owned(), last_modified: UNIX_EPOCH },
        })
        .collect();
    let truncated = entries.len() > request.limit as usize;
    entries.truncate(request.limit as usize);
    ListPage { entries, truncated }
}

#[async_trait]
#[allow(clippy::unimplemented)]
impl Upstream for Plain {
    fn name(&self) -> &'static str {
        "plain"
    }
    fn capabilities(&self) -> Capabilities {
        unimplemented!()
    }
    fn now(&self) -> SystemTime {
        UNIX_EPOCH
    }
    async fn ping(&self) -> Result<()> {
        Ok(())
    }
    async fn list_buckets(&self) -> Result<Vec<BucketInfo>> {
        unimplemented!()
    }
    async fn create_bucket(&self, _: &str) -> Result<()> {
        unimplemented!()
    }
    async fn delete_bucket(&self, _: &str) -> Result<()> {
        Ok(())
    }
    async fn head_bucket(&self, _: &str) -> Result<BucketInfo> {
        unimplemented!()
    }
    async fn head(&self, _: &str, key: &str, _: &Conditions) -> Result<ObjectInfo> {
        Ok(self.object(key)?.0)
    }
    async fn get(&self, _: &str, key: &str, _: Option<Range<u64>>, _: &Conditions) -> Result<GetReply> {
        let (info, bytes) = self.object(key)?;
        Ok(GetReply { range: 0..info.size_bytes, info, body: byte_stream_of(bytes) })
    }
    async fn put(&self, _: &str, key: &str, request: PutRequest, payload: Payload) -> Result<Stored> {
        let Payload::Bytes(bytes) = payload else { unimplemented!() };
        self.insert(key, request.attributes, bytes);
        Ok(Stored { upstream_etag: "e".to_owned(), stored_at: UNIX_EPOCH })
    }
    async fn delete(&self, _: &str, key: &str) -> Result<()> {
        self.objects.lock().remove(key);
        Ok(())
    }
    async fn delete_many(&self, bucket: &str, keys: &[String]) -> Result<Vec<Deleted>> {
        for key in keys {
            self.delete(bucket, key).await?;
        }
        Ok(keys.iter().map(|_| Ok(())).collect())
    }
    async fn copy(&self, request: CopyRequest) -> Result<Stored> {
        let (_, bytes) = self.object(&request.source_key)?;
        self.insert(&request.key, request.attributes, bytes);
        Ok(Stored { upstream_etag: "e".to_owned(), stored_at: UNIX_EPOCH })
    }
    async fn list(&self, _: &str, request: &ListRequest) -> Result<ListPage> {
        *self.lists.lock() += 1;
        let own = request.prefix.starts_with(RESERVED_PREFIX);
        let limit = request.limit.min(PAGE as u32);
        let request = ListRequest { limit, ..request.clone() };
        let objects = self.objects.lock();
        Ok(listed(objects.keys().filter(|name| own || !name.starts_with(RESERVED_PREFIX)), &request))
    }
    async fn tags(&self, _: &str, _: &str) -> Result<Vec<(String, String)>> {
        unimplemented!()
    }
    async fn set_tags(&self, _: &str, _: &str, _: &[(String, String)]) -> Result<()> {
        unimplemented!()
    }
    async fn create_multipart(&self, _: &str, key: &str, request: MultipartRequest) -> Result<String> {
        assert!(is_ordinary(key), "{key:?}");
        let mut uploads = self.uploads.lock();
        let id = uploads.len().to_string();
        uploads.insert((key.to_owned(), id.clone()), request.attributes);
        Ok(id)
    }
    async fn upload_part(&self, _: &str, _: &str, _: &str, _: u32, _: Payload) -> Result<String> {
        unimplemented!()
    }
    async fn upload_part_copy(&self, _: PartCopyRequest) -> Result<Stored> {
        unimplemented!()
    }
    async fn complete_multipart(
        &self,
        _: &str,
        key: &str,
        upload_id: &str,
        _: &[PartRef],
        _: &Conditions,
        record: Option<(&Attributes, BlockRecord)>,
    ) -> Result<Stored> {
        let begun = self.uploads.lock().remove(&(key.to_owned(), upload_id.to_owned()));
        let begun = begun.ok_or(UpstreamError::NoSuchUpload)?;
        self.insert(key, record.map_or(begun, |(attributes, _)| attributes.clone()), Bytes::from_static(b"1"));
        Ok(Stored { upstream_etag: "e".to_owned(), stored_at: UNIX_EPOCH })
    }
    async fn abort_multipart(&self, _: &str, key: &str, upload_id: &str) -> Result<()> {
        self.uploads.lock().remove(&(key.to_owned(), upload_id.to_owned()));
        Ok(())
    }
    async fn list_parts(&self, _: &str, _: &str, _: &str, _: u32, _: u32) -> Result<PartList> {
        Ok(PartList { parts: Vec::<PartInfo>::new(), truncated: false })
    }
    async fn list_uploads(&self, _: &str, request: &UploadListRequest) -> Result<UploadList> {
        let own = request.prefix.starts_with(RESERVED_PREFIX);
        let uploads = self.uploads.lock();
        let wanted = uploads.keys().filter(|(key, id)| {
            let after = request.after.as_ref();
            key.starts_with(&request.prefix)
                && (own || !key.starts_with(RESERVED_PREFIX))
                && after.is_none_or(|(k, i)| i.as_ref().map_or(key > k, |i| (key, id) > (k, i)))
        });
        let mut uploads: Vec<_> = wanted
            .map(|(key, id)| UploadInfo { key: key.clone(), upload_id: id.clone(), initiated_at: UNIX_EPOCH })
            .collect();
        let truncated = uploads.len() > PAGE;
        uploads.truncate(PAGE);
        Ok(UploadList { uploads, truncated })
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn put(store: &Mapped<Plain>, key: &str) {
    let bytes = Payload::Bytes(Bytes::from_static(b"1"));
    block_on(store.put("b", key, PutRequest::default(), bytes)).unwrap();
}

fn long(tail: &str) -> String {
    format!("/{}{tail}", "a/b".repeat(260))
}

#[test]
fn a_long_key_is_told_by_its_object() {
    let store = Mapped::new(Plain::default());
    let (one, other) = (long("1"), long("2"));
    put(&store, &one);
    let info = block_on(store.head("b", &one, &Conditions::default())).unwrap();
    assert_eq!(info.attributes, Attributes::default());
    assert!(block_on(store.head("b", &other, &Conditions::default())).is_err());
    let copy = CopyRequest {
        source_bucket: "b".to_owned(),
        source_key: one.clone(),
        source_conditions: Conditions::default(),
        bucket: "b".to_owned(),
        key: other.clone(),
        attributes: info.attributes,
        tags: None,
    };
    block_on(store.copy(copy)).unwrap();
    let page = block_on(store.list("b", &ListRequest { limit: 9, ..ListRequest::default() })).unwrap();
    assert_eq!(page.entries.iter().map(ListEntry::name).collect::<Vec<_>>(), [one.as_str(), other.as_str()]);
}

#[test]
fn a_bucket_of_odd_keys_alone_is_not_empty() {
    for key in ["/a".to_owned(), long("")] {
        let store = Mapped::new(Plain::default());
        put(&store, ".blockgate/ledger/1");
        block_on(store.delete_bucket("b")).unwrap();
        put(&store, &key);
        assert!(matches!(block_on(store.delete_bucket("b")), Err(UpstreamError::BucketNotEmpty)));
        block_on(store.delete_many("b", &[key])).unwrap();
        block_on(store.delete_bucket("b")).unwrap();
    }
}

#[test]
fn uploads_are_listed_by_key_and_leave_no_notes() {
    let store = Mapped::new(Plain::default());
    let keys = ["a".to_owned(), "/a".to_owned(), "/a".to_owned(), "b//".to_owned(), long("1"), long("2")];
    let mut begun: Vec<_> = keys
        .iter()
        .map(|key| (key.clone(), block_on(store.create_multipart("b", key, MultipartRequest::default())).unwrap()))
        .collect();
    begun.sort();
    let mut seen: Vec<(String, String)> = Vec::new();
    loop {
        let after = seen.last().map(|(key, id)| (key.clone(), Some(id.clone())));
        let page =
            block_on(store.list_uploads("b", &UploadListRequest { after, limit: 2, ..Default::default() })).unwrap();
        seen.extend(page.uploads.into_iter().map(|upload| (upload.key, upload.upload_id)));
        if !page.truncated {
            break;
        }
    }
    assert_eq!(seen, begun);
    for (key, id) in &begun[1..] {
        block_on(store.abort_multipart("b", key, id)).unwrap();
    }
    let (key, id) = &begun[0];
    block_on(store.complete_multipart("b", key, id, &[], &Conditions::default(), None)).unwrap();
    let left: Vec<_> = store.inner().objects.lock().keys().cloned().collect();
    assert_eq!(left, [name_of(key).as_str()]);
}

#[test]
fn a_page_costs_few_requests_however_many_keys_fold() {
    let store = Mapped::new(Plain::default());
    for n in 0..300 {
        put(&store, &format!("/{}/{n}", n / 100));
        put(&store, &format!("x/{n}"));
    }
    *store.inner().lists.lock() = 0;
    let request = ListRequest { prefix: "/".into(), delimiter: Some("/".into()), limit: 10, ..Default::default() };
    let page = block_on(store.list("b", &request)).unwrap();
    assert_eq!(page.entries.iter().map(ListEntry::name).collect::<Vec<_>>(), ["/0/", "/1/", "/2/"]);
    assert!(*store.inner().lists.lock() <= 6, "{}", store.inner().lists.lock());
}

#[test]
fn what_others_stored_under_odd_names_is_not_shown() {
    let store = Mapped::new(Plain::default());
    for name in ["a", "b/", "c"] {
        store.inner().objects.lock().insert(name.to_owned(), (Attributes::default(), Bytes::new()));
    }
    let page = block_on(store.list("b", &ListRequest { limit: 9, ..ListRequest::default() })).unwrap();
    assert_eq!(page.entries.iter().map(ListEntry::name).collect::<Vec<_>>(), ["a", "c"]);
}

fn keys() -> impl Strategy<Value = Vec<String>> {
    let short = prop_oneof![4 => "[ab/]{1,6}", 1 => "[ab/é\u{1}.~]{1,5}"];
    let long = (0..3usize, "[ab/]{0,3}").prop_map(|(n, tail)| {
        let head = ["/", "a//", "//b"][n];
        format!("{head}{}{tail}", ["z", "a/", "zé"][n].repeat(760 / ["z", "a/", "zé"][n].len()))
    });
    let key = prop_oneof![6 => short, 1 => long];
    prop::collection::vec(key.prop_filter("a key", |key| !key.is_empty() && key.len() <= 1024), 0..25)
}

fn part_of_key() -> impl Strategy<Value = String> {
    prop_oneof![8 => "[ab/]{0,3}", 1 => Just(format!("/{}", "z".repeat(155))), 1 => Just(format!("a//{}", "a/".repeat(75)))]
}

proptest! {
    #[test]
    fn listings_are_those_of_the_keys(
        keys in keys(),
        prefix in part_of_key(),
        delimiter in prop::option::of(prop_oneof![Just("/"), Just("a/"), Just("b"), Just("é")]),
        start_after in prop::option::of(part_of_key()),
        limit in 1u32..8,
    ) {
        let store = Mapped::new(Plain::default());
        keys.iter().for_each(|key| put(&store, key));
        let model: BTreeSet<String> = keys.into_iter().collect();
        let mut request = ListRequest { prefix, delimiter: delimiter.map(str::to_owned), start_after, limit };
        loop {
            let page = block_on(store.list("b", &request)).unwrap();
            prop_assert_eq!(&page, &listed(model.iter(), &request));
            match page.entries.last() {
                Some(last) if page.truncated => request.start_after = Some(last.name().to_owned()),
                _ => break,
            }
        }
    }

    #[test]
    fn every_key_is_an_object_of_its_own(keys in keys()) {
        let store = Mapped::new(Plain::default());
        let keys: BTreeSet<String> = keys.into_iter().collect();
        for key in &keys {
            let bytes = Payload::Bytes(Bytes::copy_from_slice(key.as_bytes()));
            block_on(store.put("b", key, PutRequest::default(), bytes)).unwrap();
        }
        for key in &keys {
            let reply = block_on(store.get("b", key, None, &Conditions::default())).unwrap();
            prop_assert_eq!(reply.info.size_bytes, key.len() as u64);
            prop_assert_eq!(reply.info.attributes, Attributes::default());
        }
        prop_assert_eq!(store.inner().objects.lock().len(), keys.len());
    }
}
