use crate::given::user;
use coracle_store::{Belongings, Day, KEPT_TOKEN_DAYS, MAX_DAY_TOKENS, Renamed, Store};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

fn day(number: u32) -> Day {
    Day::of(UNIX_EPOCH + Duration::from_hours(24) * number + Duration::from_secs(86_399))
}

pub(crate) async fn tokens_are_counted_by_user_and_day(store: Arc<dyn Store>) {
    let (ann, bob, eve) = (user("ann"), user("bob"), user("eve"));
    let today = day(20_000);
    assert_eq!((today.number(), Day::of(UNIX_EPOCH - Duration::from_secs(1)).number()), (20_000, 0));
    assert_eq!(store.tokens_used(&ann, today).await.unwrap(), 0);
    store.add_tokens(&ann, today, 5).await.unwrap();
    store.add_tokens(&ann, today, 7).await.unwrap();
    store.add_tokens(&ann, day(20_001), 100).await.unwrap();
    let used = async |who, day| store.tokens_used(who, day).await.unwrap();
    assert_eq!((used(&ann, today).await, used(&ann, day(20_001)).await, used(&bob, today).await), (12, 100, 0));

    store.add_tokens(&bob, today, 1).await.unwrap();
    assert_eq!(store.rename_user(&ann, &eve, Belongings::All).await.unwrap(), Renamed::Unknown, "a count is no data");
    assert!(store.add_user(&crate::accounts::somebody("ann")).await.unwrap());
    assert_eq!(store.rename_user(&ann, &eve, Belongings::All).await.unwrap(), Renamed::Done);
    assert_eq!((used(&ann, today).await, used(&eve, today).await, used(&bob, today).await), (0, 12, 1));
    store.delete_user(&eve).await.unwrap();
    assert_eq!((used(&eve, today).await, used(&bob, today).await), (0, 1));
}

pub(crate) async fn no_token_is_lost_and_no_count_overflows(store: Arc<dyn Store>) {
    let ann = user("ann");
    let adding = (0..8).map(|_| {
        let (store, ann) = (Arc::clone(&store), ann.clone());
        tokio::spawn(async move {
            for _ in 0..10 {
                store.add_tokens(&ann, day(9), 3).await.unwrap();
            }
        })
    });
    for task in adding.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    assert_eq!(store.tokens_used(&ann, day(9)).await.unwrap(), 240);
    for _ in 0..3 {
        store.add_tokens(&ann, day(9), u64::MAX).await.unwrap();
    }
    assert_eq!(store.tokens_used(&ann, day(9)).await.unwrap(), MAX_DAY_TOKENS);
}

pub(crate) async fn old_token_counts_are_deleted(store: Arc<dyn Store>) {
    let ann = user("ann");
    for number in [10, 11] {
        store.add_tokens(&ann, day(number), 1).await.unwrap();
    }
    store.add_tokens(&ann, day(10 + KEPT_TOKEN_DAYS), 1).await.unwrap();
    assert_eq!(store.tokens_used(&ann, day(10)).await.unwrap(), 0);
    assert_eq!(store.tokens_used(&ann, day(11)).await.unwrap(), 1, "the control");
}
