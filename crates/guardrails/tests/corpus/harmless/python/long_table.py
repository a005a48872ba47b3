rates = {
    "AED": 3.67, "ARS": 875.5, "AUD": 1.51, "BRL": 5.02, "CAD": 1.36, "CHF": 0.9, "CLP": 945.1, "CNY": 7.23,
    "CZK": 23.2, "DKK": 6.94, "EUR": 0.93, "GBP": 0.79, "HKD": 7.82, "HUF": 366.2, "IDR": 15890.0, "ILS": 3.7,
    "INR": 83.3, "JPY": 151.4, "KRW": 1349.8, "MXN": 16.6, "MYR": 4.73, "NOK": 10.8, "NZD": 1.66, "PHP": 56.3,
}
print(max(rates, key=rates.get), sorted(rates.items(), key=lambda item: item[1])[:3])
