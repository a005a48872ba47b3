import heapq

graph = {"a": {"b": 1, "c": 4}, "b": {"c": 2, "d": 5}, "c": {"d": 1}, "d": {}}

def shortest(start):
    distance, queue = {start: 0}, [(0, start)]
    while queue:
        cost, node = heapq.heappop(queue)
        for other, weight in graph[node].items():
            if cost + weight < distance.get(other, float("inf")):
                distance[other] = cost + weight
                heapq.heappush(queue, (distance[other], other))
    return distance

result = shortest("a")
