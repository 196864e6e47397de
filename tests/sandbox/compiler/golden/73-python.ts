async def main(input):
    return 1
