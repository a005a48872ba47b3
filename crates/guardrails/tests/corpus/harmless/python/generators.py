from itertools import islice

def primes():
    found = []
    number = 2
    while True:
        if all(number % prime for prime in found):
            found.append(number)
            yield number
        number += 1

result = list(islice(primes(), 20))
