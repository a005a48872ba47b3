macro_rules! visitor {
    () => {
        $crate::customer::Customer
    };
}

fn greet() {
    println!("{}", visitor!());
}
