mod bank;
mod customer;
mod shop;
