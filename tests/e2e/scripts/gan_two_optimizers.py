import torch
import torch.nn as nn

torch.manual_seed(3)
torch.set_num_threads(1)
G = nn.Sequential(nn.Linear(4, 32), nn.LeakyReLU(0.2), nn.Linear(32, 8), nn.Tanh())
D = nn.Sequential(nn.Linear(8, 32), nn.LeakyReLU(0.2), nn.Dropout(0.2), nn.Linear(32, 1))
opt_g = torch.optim.Adam(G.parameters(), lr=1e-3, betas=(0.5, 0.999))
opt_d = torch.optim.RMSprop(D.parameters(), lr=1e-3)
bce = nn.BCEWithLogitsLoss()
for step in range(120):
    real = torch.randn(32, 8).mul(0.2).add(0.5)
    fake = G(torch.randn(32, 4))
    loss_d = bce(D(real), torch.ones(32, 1)) + bce(D(fake.detach()), torch.zeros(32, 1))
    opt_d.zero_grad()
    loss_d.backward()
    opt_d.step()
    loss_g = bce(D(fake), torch.ones(32, 1))
    opt_g.zero_grad()
    loss_g.backward()
    opt_g.step()
    if step % 40 == 0:
        print(step, loss_d.item().hex(), loss_g.item().hex())
torch.save([G.state_dict(), D.state_dict(), opt_g.state_dict(), opt_d.state_dict()], "all.pt")
