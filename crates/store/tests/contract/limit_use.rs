use crate::given::user;
use coracle_store::{Charged, LimitCharge, Millionths, Store};
use coracle_types::UserId;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_800_000_000 + seconds)
}

fn charge(limit: &str, user: Option<&UserId>, calls: Option<u64>, amount: u64, max: Option<u64>) -> LimitCharge {
    LimitCharge {
        limit: limit.to_owned(),
        user: user.cloned(),
        subject: "bank.pay".to_owned(),
        window: Duration::from_hours(1),
        calls,
        amount: Millionths::whole(amount),
        max: max.map(Millionths::whole),
    }
}

pub(crate) async fn calls_are_charged_until_a_limit_is_used_up(store: Arc<dyn Store>) {
    let (ann, bob) = (user("ann"), user("bob"));
    let two = |user| [charge("two", user, Some(2), 0, None)];
    for second in 0..2 {
        assert_eq!(store.allows(&two(Some(&ann)), at(second)).await.unwrap(), Charged::All);
        assert_eq!(store.charge(&two(Some(&ann)), at(second)).await.unwrap(), Charged::All);
    }
    assert_eq!(store.allows(&two(Some(&ann)), at(3)).await.unwrap(), Charged::Exceeded(0));
    assert_eq!(store.charge(&two(Some(&ann)), at(3)).await.unwrap(), Charged::Exceeded(0));
    // Others, and other subjects, are counted separately.
    assert_eq!(store.charge(&two(Some(&bob)), at(3)).await.unwrap(), Charged::All);
    assert_eq!(store.charge(&two(None), at(3)).await.unwrap(), Charged::All);
    let elsewhere = [LimitCharge { subject: "bank".to_owned(), ..two(Some(&ann))[0].clone() }];
    assert_eq!(store.charge(&elsewhere, at(3)).await.unwrap(), Charged::All);

    // What was charged counts for the whole period, and at most a sixtieth longer.
    assert_eq!(store.charge(&two(Some(&ann)), at(3_600)).await.unwrap(), Charged::Exceeded(0));
    assert_eq!(store.charge(&two(Some(&ann)), at(3_662)).await.unwrap(), Charged::All);
}

pub(crate) async fn amounts_are_charged_all_or_none(store: Arc<dyn Store>) {
    let ann = user("ann");
    let pay =
        |amount| [charge("calls", Some(&ann), Some(10), 0, None), charge("sum", Some(&ann), None, amount, Some(100))];
    assert_eq!(store.charge(&pay(60), at(0)).await.unwrap(), Charged::All);
    assert_eq!(store.charge(&pay(41), at(0)).await.unwrap(), Charged::Exceeded(1));
    assert_eq!(store.charge(&pay(40), at(0)).await.unwrap(), Charged::All);
    let cent = LimitCharge { amount: Millionths::of_float(0.000_001).unwrap(), ..pay(0)[1].clone() };
    assert_eq!(store.charge(&[cent], at(0)).await.unwrap(), Charged::Exceeded(0));
    // The refused call did not count for the other limit.
    let eight = vec![charge("calls", Some(&ann), Some(10), 0, None); 1];
    for _ in 0..8 {
        assert_eq!(store.charge(&eight, at(1)).await.unwrap(), Charged::All);
    }
    assert_eq!(store.charge(&eight, at(1)).await.unwrap(), Charged::Exceeded(0));
    // What is given back can be charged again.
    store.give_back(&pay(40), at(0)).await.unwrap();
    assert_eq!(store.charge(&pay(40), at(1)).await.unwrap(), Charged::All);
    assert_eq!(store.charge(&pay(1), at(1)).await.unwrap(), Charged::Exceeded(0));
    store.give_back(&[charge("never", None, Some(1), 5, Some(5))], at(0)).await.unwrap();

    store.delete_user_data(&ann).await.unwrap();
    assert_eq!(store.charge(&pay(100), at(1)).await.unwrap(), Charged::All);
}

pub(crate) async fn concurrent_calls_do_not_exceed_a_limit(store: Arc<dyn Store>) {
    let calls = (0..8).map(|_| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            let mut made = 0;
            for _ in 0..10 {
                let charges = [charge("sum", None, None, 3, Some(100))];
                made += u64::from(store.charge(&charges, at(7)).await.unwrap() == Charged::All);
            }
            made
        })
    });
    let mut made = 0;
    for call in calls.collect::<Vec<_>>() {
        made += call.await.unwrap();
    }
    assert_eq!(made, 33);
}
