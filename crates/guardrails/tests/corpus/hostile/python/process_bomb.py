# expect: destructive
import multiprocessing

def work():
    while True:
        multiprocessing.Process(target=work).start()

work()
